"""The presets' settings for machines that cannot read YAML files."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import preset_values as values
import presets


def test_the_file_holds_the_presets_as_they_are() -> None:
    held = values.read_json(values.FILE)
    assert held == values.values(), "run: python benchmarks/preset_values.py"


def test_the_same_model_is_built_from_the_file(monkeypatch) -> None:
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


def test_overrides_change_what_they_name() -> None:
    overrides = ["MODEL.VRT.ATTENTION=sdpa", "MODEL.VRT.USE_CHECKPOINT_ATTN=false"]
    vrt = values.from_file("baseline", overrides).MODEL.VRT
    assert (vrt.ATTENTION, vrt.USE_CHECKPOINT_ATTN, vrt.USE_CHECKPOINT_FFN) == (
        "sdpa", False, True
    )  # fmt: skip
    with pytest.raises(KeyError, match=r"MODEL\.VRT\.NO_SUCH"):
        values.from_file("baseline", ["MODEL.VRT.NO_SUCH=1"])
