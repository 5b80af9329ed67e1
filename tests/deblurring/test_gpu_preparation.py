"""Before the first step on a GPU: compiled, settled, and checked against its memory."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch

pytest.importorskip("triton")

from tests.deblurring.pretended_gpu import DEVICE, pretended_gpu
from tests.deblurring.test_traced_step import small
from vrtspike.deblurring import gpu_preparation, preset
from vrtspike.deblurring.gpu_preparation import memory_fault
from vrtspike.deblurring.models.ops import dispatch, registry
from vrtspike.deblurring.models.ops.dispatch import VARIABLE, Operation
from vrtspike.deblurring.models.ops.registry import OPERATIONS
from vrtspike.deblurring.preset import build_network, prepare
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError, RunError
from vrtspike.training.distributed import Ranks

ALONE = Ranks(0, 0, 1, 1, DEVICE)


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What trials find, by operation; none is run."""
    found: dict[str, float] = {}
    monkeypatch.setattr(dispatch, "_VERDICTS", {})
    monkeypatch.setattr(gpu_preparation, "keep_cache_place", lambda: None)
    monkeypatch.setattr(gpu_preparation, "trial_launches", lambda *_: [])

    def tried(operation: Operation, *_: Any) -> str:
        value = found.setdefault(operation.name, 0.0)
        return "" if value == 0.0 else "differs"

    monkeypatch.setattr(dispatch, "_tried", tried)
    return found


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many launches were given to be compiled, each time."""
    found: list[int] = []

    def compile_ahead(launches: Sequence[Any], tell: Any) -> None:
        found.append(len(launches))

    monkeypatch.setattr(gpu_preparation, "compile_ahead", compile_ahead)
    return found


def run(settings: Settings, ranks: Ranks = ALONE, gib: float = 80.0) -> tuple[str, list[str]]:
    """The line on how the model computes, and what was told before."""
    told: list[str] = []
    # The line is made with an empty tensor on the device.
    stand_in = SimpleNamespace(empty=lambda *_, device: SimpleNamespace(device=device))
    with pretended_gpu(gib), mock.patch.object(registry, "torch", stand_in):
        model = build_network(settings, pretrained=False)
        return prepare(model, settings, ranks, told.append), told


def test_a_run_is_compiled_for_and_settled(
    trials: dict[str, float], compilations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_preparation, "peak_bytes", None)  # not asked: all kernels are used
    run(small(), Ranks(1, 1, 1, 2, DEVICE))
    assert compilations == []  # another process of the machine compiles
    line, told = run(small())
    assert compilations[0] > 10
    assert told == []
    assert set(trials) == {operation.name for operation in OPERATIONS}
    for part in ("window_attention: triton", "projections: own kernel", "feed_forward: own kernel"):
        assert part in line


@pytest.mark.endurance
def test_refused_and_disabled_kernels_are_in_the_line(
    trials: dict[str, float], compilations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    trials["feed_forward"] = 1.0
    monkeypatch.setenv(VARIABLE, "deform_conv")
    model = {**small().MODEL.model_dump(), "DISABLE_KERNELS": ["projections"]}
    with pytest.warns(UserWarning, match="feed_forward"):
        line, _ = run(small(MODEL=model))
    assert set(trials) == {"window_attention", "feed_forward"}
    assert "feed_forward: PyTorch (differs)" in line
    assert "projections: PyTorch (off by MODEL.DISABLE_KERNELS)" in line
    assert f"deform_conv: PyTorch (off by {VARIABLE})" in line


def test_float32_has_nothing_to_prepare(
    trials: dict[str, float], compilations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_preparation, "peak_bytes", None)
    run(small(TRAIN={"BATCH_SIZE": 1, "PRECISION": "32"}))
    assert trials == {}
    assert compilations == []


def test_a_failure_of_tracing_is_told_and_no_end(
    trials: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise NotImplementedError("aten::new")

    monkeypatch.setattr(gpu_preparation, "step_launches", fail)
    monkeypatch.setattr(gpu_preparation, "peak_bytes", fail)
    trials["deform_conv"] = 1.0
    with pytest.warns(UserWarning, match="deform_conv"):
        _, told = run(small())
    assert [line.partition(":")[0] for line in told] == [
        "kernels are compiled at their first launch, not ahead of it",
        "whether a step fits into memory is not known",
    ]
    assert set(trials) == {operation.name for operation in OPERATIONS}


def off(**train: Any) -> Settings:
    model = {**small().MODEL.model_dump(), "DISABLE_KERNELS": ["all"]}
    return small(MODEL=model, TRAIN={**small().TRAIN.model_dump(), **train})


@pytest.mark.endurance
def test_a_step_that_does_not_fit_without_kernels_is_refused_before_it() -> None:
    run(off(), gib=1.0)
    with pytest.raises(RunError) as error:
        run(off(), gib=0.05)
    text = str(error.value)
    assert text.startswith("cuda:0: without the kernels of window_attention (off by MODEL.DISABLE")
    assert "the device has 0.0 GiB" in text
    keys = ["MODEL.VRT.RECOMPUTE", "USE_CHECKPOINT_ATTN", "USE_CHECKPOINT_FFN", "TRAIN.BATCH_SIZE"]
    places = [text.index(key) for key in [*keys, "GRADIENT_ACCUMULATION_STEPS", "DATA.CROP_SIZE"]]
    assert places == sorted(places)


@pytest.mark.endurance
def test_it_ends_all_ranks_where_it_does_not_fit_on_one() -> None:
    class Second(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [value, "cuda:1: full"] if isinstance(value, str) else [value, value]

    with pytest.raises(RunError, match="cuda:1: full"):
        run(off(), Second(0, 0, 2, 2, DEVICE))


@pytest.mark.endurance
def test_where_blocks_are_compiled_it_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"needs about .* GiB.*COMPILE_MODEL may make it less"):
        run(off(COMPILE_MODEL=True), gib=0.05)


def test_keys_that_are_set_are_not_advised() -> None:
    vrt = {**small().MODEL.VRT.model_dump(), "USE_CHECKPOINT_ATTN": True}
    vrt |= {"USE_CHECKPOINT_FFN": True, "RECOMPUTE": "cheap"}
    model = {**small().MODEL.model_dump(), "VRT": vrt}
    settings = small(MODEL=model, TRAIN={"BATCH_SIZE": 1})
    text = memory_fault(settings, "cuda:0", {"deform_conv": "x"}, 3 * 2**30, 2**30)
    assert text == (
        "cuda:0: without the kernels of deform_conv (x) a training step needs about 3.0 GiB, the "
        "device has 1.0 GiB. In this order: lower DATA.CROP_SIZE or DATA.CLIP_LEN."
    )


def test_an_unknown_name_in_the_variable_ends_a_run_at_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "deform_conv,attention")
    here = Ranks(0, 0, 1, 1, torch.device("cpu"))
    with pytest.raises(ConfigError, match=f"environment variable {VARIABLE}: found 'attention'"):
        preset.build(None, here, None)
