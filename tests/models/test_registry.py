"""Properties of every model of the registry."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.small_models import SMALL, each_model
from tests.training.replicas import Case, assert_equal_to_one_process, train_by_two
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.models import Restorer, build_model
from vrtspike.models.restorer import FLOW
from vrtspike.models.shuffled_spikes import ShuffledSpikes
from vrtspike.models.stages import TMSABlock
from vrtspike.training.optimizers import trainable_groups

SENSORS = {"equal": (32, 48), "half": (16, 24), "quarter": (8, 12), "other": (13, 20)}
"""Sizes of a sensor beside frames of 32 x 48."""


def build(name: str, **model: Any) -> Restorer:
    torch.manual_seed(0)
    data = {"NUM_VOXEL_BINS": 4, "CLIP_LEN": 3}
    values = {**SMALL, "TYPE": name, **model}
    return build_model(DeblurringSettings.model_validate({"MODEL": values, "DATA": data}))


def build_away_from_zero(name: str, **model: Any) -> Restorer:
    """A model none of whose layers starts at zero, and which draws no random numbers."""
    vrt = {**SMALL["VRT"], "DROP_PATH_RATE": 0.0}
    network = build(name, VRT=vrt, **model)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network


def clip_of(sensor: tuple[int, int], frames: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Two clips of 32 x 48 pixels with their voxels."""
    torch.manual_seed(1)
    return torch.rand(2, frames, 3, 32, 48), torch.randn(2, frames, 4, *sensor)


def cases_of(name: str) -> dict[str, Case]:
    """Trainings that use different parts of a model: clips, single frames, no spikes."""
    build_it = partial(build_away_from_zero, name)
    without = partial(build_away_from_zero, name, USE_SPIKE=False)
    return {
        "half": (build_it, clip_of(SENSORS["half"])),
        "one frame": (build_it, clip_of(SENSORS["half"], frames=1)),
        "without spikes": (without, clip_of(SENSORS["half"])),
    }


@each_model
@pytest.mark.parametrize(
    ("frames", "height", "width"),
    [(1, 16, 16), (2, 17, 31), (3, 8, 8), (2, 1, 1), (6, 3, 40), (18, 16, 16)],
)
def test_it_restores_clips_of_any_length_and_size(name, frames, height, width):
    blur, voxels = torch.rand(2, frames, 3, height, width), torch.randn(2, frames, 4, height, width)
    restored = build(name)(blur, voxels)
    assert restored.shape == blur.shape
    assert torch.isfinite(restored).all()


@each_model
@pytest.mark.parametrize("shape", [None, (1, 3, 5, 16, 16), (1, 2, 4, 16, 16)])
def test_other_voxels_are_refused(name, shape):
    voxels = None if shape is None else torch.zeros(shape)
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 4\) \+ \(h, w\)"):
        build(name)(torch.rand(1, 3, 3, 16, 16), voxels)


@each_model
def test_untrained_it_returns_the_blurry_frames_and_its_first_step_moves_it(name):
    model = build(name)
    blur = torch.rand(1, 2, 3, 16, 16)
    restored = model(blur, torch.randn(1, 2, 4, 16, 16))
    assert torch.equal(restored, blur)
    restored.square().mean().backward()
    assert any(p.grad is not None and p.grad.any() for p in model.parameters())


@each_model
def test_it_describes_itself_and_its_rate_groups(name):
    model = build(name)
    assert model.describe()
    groups = trainable_groups(model)
    assert sum(len(group) for group in groups.values()) == len(list(model.parameters()))
    # In clips of one frame flow takes no part.
    model(torch.rand(1, 1, 3, 16, 16), torch.randn(1, 1, 4, 16, 16)).sum().backward()
    assert not any(p.grad is not None and p.grad.any() for p in groups[FLOW])


@each_model
def test_every_parameter_has_a_gradient_with_any_sensor(name):
    """Two processes could not train otherwise: both wait for the gradients of all parameters."""
    build_it = partial(build_away_from_zero, name)
    control = partial(build_away_from_zero, name, SPIKE_ORDER="shuffled")
    cases = {**cases_of(name), "control": (control, clip_of(SENSORS["half"]))}
    cases |= {sensor: (build_it, clip_of(size)) for sensor, size in SENSORS.items()}
    for case, (build_it, inputs) in cases.items():
        model = build_it()
        model(*inputs).square().mean().backward()
        without = [key for key, parameter in model.named_parameters() if parameter.grad is None]
        assert without == [], case


@each_model
def test_it_can_be_a_control_with_the_same_weights(name):
    control, recorded = build(name, SPIKE_ORDER="shuffled"), build(name)
    assert isinstance(control, ShuffledSpikes)
    weights = recorded.state_dict()
    assert list(control.state_dict()) == list(weights)
    control.load_state_dict({key: tensor + 1 for key, tensor in weights.items()})
    for key, tensor in control.model.state_dict().items():
        assert torch.equal(tensor, weights[key] + 1), key
    without_spikes = build(name, SPIKE_ORDER="shuffled", USE_SPIKE=False)
    assert not isinstance(without_spikes, ShuffledSpikes)


@each_model
def test_two_processes_learn_the_same_as_one(name, tmp_path: Path):
    cases = cases_of(name)
    train_by_two(cases, tmp_path)
    for case_name, case in cases.items():
        assert_equal_to_one_process(case_name, case, tmp_path)


@pytest.mark.parametrize(
    "name", ["spike_nafnet", pytest.param("vrt_spike", marks=pytest.mark.endurance)]
)
def test_compiled_it_computes_the_same(name):
    model = build(name).eval()
    clip = torch.rand(1, 2, 3, 16, 16), torch.randn(1, 2, 4, 16, 16)
    expected = model(*clip)
    model.compile(backend="eager")
    torch.testing.assert_close(model(*clip), expected, rtol=1e-3, atol=1e-4)


def test_vrt_compiles_its_blocks_alone():
    model = build("vrt_spike")
    model.compile(backend="eager")
    compiled = {type(m) for m in model.modules() if m._compiled_call_impl is not None}
    assert compiled == {TMSABlock}


def test_a_minimal_model_has_the_defaults():
    class Identity(Restorer):
        def forward(self, blur, voxels):
            return blur

    model = Identity()
    assert model.describe() == "model: Identity"
    assert model.lr_groups() == {"backbone": [], "flow": []}
    with pytest.raises(NotImplementedError):
        Restorer()(torch.rand(1, 1, 3, 8, 8), None)
