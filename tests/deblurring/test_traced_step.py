"""A step without data: what it launches, what it leaves alone, and its memory."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton")

from tests.deblurring.pretended_gpu import DEVICE, pretended_gpu
from vrtspike.deblurring.models import Restorer
from vrtspike.deblurring.models.ops import dispatch
from vrtspike.deblurring.models.ops.registry import OPERATIONS
from vrtspike.deblurring.preset import build_network
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.traced_step import peak_bytes, step_launches

CPU = torch.device("cpu")


def small(**sections: Any) -> Settings:
    """A VRT whose kernels take all its layers, and little of anything."""
    vrt = {"EMBED_DIMS": [32] * 11, "NUM_HEADS": 2, "DEFORMABLE_GROUPS": 4, "DROP_PATH_RATE": 0.1}
    vrt |= {"USE_CHECKPOINT_ATTN": False, "USE_CHECKPOINT_FFN": False, "RECOMPUTE": "none"}
    values: dict[str, Any] = {
        "DATA": {"CROP_SIZE": 32, "CLIP_LEN": 3, "NUM_VOXEL_BINS": 4},
        "MODEL": {"VRT_DEPTHS": [1] * 8, "WINDOW_SIZE": (2, 4, 4), "VRT": vrt},
        "TRAIN": {"BATCH_SIZE": 2, "PRECISION": "bf16-mixed"},
    }
    for name, section in sections.items():
        values[name] = {**values[name], **section}
    return Settings.model_validate(values)


@pytest.fixture
def gpu() -> Iterator[None]:
    with pretended_gpu():
        yield


@pytest.fixture(scope="module")
def traced() -> tuple[Restorer, set[Any]]:
    """A model, and what a step of it launches."""
    settings = small()
    with pretended_gpu():
        model = build_network(settings, pretrained=False)
        found = step_launches(model, settings, DEVICE)
    assert len(set(found)) == len(found)
    return model, set(found)


def names(launches: set[Any]) -> set[str]:
    return {f"{x.module.split('.')[-2]}.{x.name}" for x in launches}


def test_all_operations_of_forward_and_backward_pass_are_noted(traced) -> None:
    _, found = traced
    expected = {"window_attention.forward_kernel", "window_attention.bias_kernel"}
    expected |= {"deform_conv.forward_kernel", "deform_conv.backward_kernel"}
    expected |= {"projections.input_kernel", "projections.input_rows_kernel"}
    expected |= {"projections.output_kernel", "feed_forward.forward_kernel"}
    assert expected <= names(found)
    # Dropped branches in training, and none in a validation.
    kept = {dict(x.arguments).get("KEEP") for x in found if x.name == "forward_kernel"}
    assert {True, False} <= kept


@pytest.mark.usefixtures("gpu")
def test_the_model_and_random_numbers_are_left_alone() -> None:
    settings = small(MODEL={**small().MODEL.model_dump(), "SPIKE_ORDER": "shuffled"})
    model = build_network(settings, pretrained=False)
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    step_launches(model, settings, DEVICE)
    peak_bytes(model, settings, DEVICE, 32)
    assert torch.equal(torch.rand(4), expected)
    assert model.training
    for name, parameter in model.named_parameters():
        assert parameter.grad is None, name
        assert type(parameter) is nn.Parameter
        assert parameter.requires_grad, name
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    # And it computes as ever: no tensor without data is left in one of its caches.
    clip = (torch.rand(1, 3, 3, 32, 32), torch.randn(1, 3, 4, 32, 32))
    assert model(*clip).isfinite().all()


@pytest.mark.endurance
@pytest.mark.usefixtures("gpu")
def test_crops_of_phases_and_frozen_parts_have_kernels_of_their_own(traced) -> None:
    model, alone = traced
    train = small().TRAIN.model_dump()
    phases = [{"CROP_SIZE": 32, "EPOCHS": 1}, {"CROP_SIZE": 48, "EPOCHS": 1}]
    grown = small(TRAIN={**train, "PROGRESSIVE": phases, "EPOCHS": 2})
    assert alone < set(step_launches(model, grown, DEVICE))
    frozen = small(TRAIN={**train, "FREEZE_FLOW_STEPS": 5})
    more = set(step_launches(model, frozen, DEVICE)) - alone
    assert {dict(x.arguments)["FOR_WEIGHT"] for x in more if x.name == "backward_kernel"} == {False}


@pytest.mark.endurance
@pytest.mark.usefixtures("gpu")
def test_a_step_without_kernels_needs_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small()
    model = build_network(settings, pretrained=False)
    with_kernels = peak_bytes(model, settings, DEVICE, 32)
    for operation in OPERATIONS:
        key = (operation.name, DEVICE, torch.bfloat16)
        monkeypatch.setitem(dispatch._VERDICTS, key, "refused")
    without = peak_bytes(model, settings, DEVICE, 32)
    assert without > 1.2 * with_kernels


class Chain(Restorer):
    """Sigmoids, each of which keeps its result, of one parameter's picture."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.weight, self.length = nn.Parameter(torch.zeros(1, 3, 3, 32, 32)), length

    def forward(self, blur: Tensor, voxels: Tensor | None) -> Tensor:
        x = blur + self.weight
        for _ in range(self.length):
            x = x.sigmoid()
        return x


def test_bytes_of_a_step_that_can_be_counted_by_hand() -> None:
    settings = small(TRAIN={"BATCH_SIZE": 2, "PRECISION": "32", "EMA": 0.9})
    clip = 4 * 2 * 3 * 3 * 32 * 32
    parameters = clip // 2
    gc.collect()
    long, short = (peak_bytes(Chain(n), settings, CPU, 32) for n in (50, 10))
    assert long - short == 40 * clip
    # Weights, gradients, two moments and the average.
    fixed = 5 * parameters
    assert fixed + 10 * clip < short < fixed + 18 * clip
    plain = small(TRAIN={"BATCH_SIZE": 2, "PRECISION": "32"})
    assert short - peak_bytes(Chain(10), plain, CPU, 32) == parameters
    eight = small(TRAIN={"BATCH_SIZE": 2, "PRECISION": "32", "OPTIM": {"TYPE": "adamw8bit"}})
    saved = peak_bytes(Chain(10), plain, CPU, 32) - peak_bytes(Chain(10), eight, CPU, 32)
    assert saved == 6 * parameters // 4
