"""The presets' settings for machines that cannot read YAML files."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import preset_values

    return preset_values


def test_the_file_holds_the_presets_as_they_are(values) -> None:
    held = values.read_json(values.FILE)
    assert held == values.values(), "run: python benchmarks/preset_values.py"


def test_the_same_model_is_built_from_the_file(values, monkeypatch) -> None:
    import presets

    whole = presets.build(values.load("demo"), 48)
    monkeypatch.setattr(values, "READERS", ("no_such_package",))
    held = values.load("demo")
    assert isinstance(held, SimpleNamespace)
    assert held.MODEL.window == (2, 4, 4)
    found = presets.build(held, 48)
    for (name, a), (other, b) in zip(
        whole.state_dict().items(), found.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(a, b), name


def test_overrides_change_what_they_name(values) -> None:
    overrides = ["MODEL.VRT.ATTENTION=explicit", "MODEL.VRT.USE_CHECKPOINT_ATTN=false"]
    vrt = values.from_file("baseline", overrides).MODEL.VRT
    assert (vrt.ATTENTION, vrt.USE_CHECKPOINT_ATTN, vrt.USE_CHECKPOINT_FFN) == (
        "explicit", False, True
    )  # fmt: skip
    with pytest.raises(KeyError, match=r"MODEL\.VRT\.NO_SUCH"):
        values.from_file("baseline", ["MODEL.VRT.NO_SUCH=1"])
