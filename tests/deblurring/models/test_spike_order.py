"""Each frame gets the spikes of another one: of which, and what the model makes of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
import torch

from vrtspike.deblurring.models import VRTSpike, build_model
from vrtspike.deblurring.models.spike_order import foreign_frames
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.settings.model import ModelSettings
from vrtspike.errors import ConfigError


def spike_model(vrt: VRT, *, shuffled: bool) -> VRTSpike:
    """The same weights every time, and fusion that has an effect."""
    torch.manual_seed(0)
    return VRTSpike(vrt, bins=4, clip_len=3, identity=False, shuffled=shuffled)


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("frames", [2, 3, 5, 6])
def test_every_frame_is_taken_once_and_by_another(frames: int, random: bool) -> None:
    torch.manual_seed(0)
    orders = foreign_frames(200, frames, random=random)
    own = torch.arange(frames)
    assert torch.equal(orders.sort(dim=1).values, own.expand(200, frames))
    assert not (orders == own).any()


def test_random_orders_differ_between_clips_and_all_frames_meet() -> None:
    torch.manual_seed(0)
    orders = foreign_frames(200, 4, random=True)
    met = {(t, int(other)) for order in orders for t, other in enumerate(order)}
    assert met == set(permutations(range(4), 2))
    # (4 - 1)! rings of four frames.
    assert len({tuple(order.tolist()) for order in orders}) == 6


def test_the_fixed_order_moves_frames_by_half_a_clip() -> None:
    torch.manual_seed(0)
    assert foreign_frames(2, 5, random=False).tolist() == [[3, 4, 0, 1, 2]] * 2
    assert foreign_frames(1, 6, random=False).tolist() == [[3, 4, 5, 0, 1, 2]]


def orders_seen(small_vrt: Callable[..., VRT], training: bool, seeds: list[int]) -> list[set]:
    """For each seed the orders of spikes, given to a model that keeps them, of equal output."""
    torch.manual_seed(1)
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.randn(1, 3, 4, 16, 16)
    recorded = spike_model(small_vrt(), shuffled=False).train(training)
    shuffled = spike_model(small_vrt(), shuffled=True).train(training)
    seen = []
    with torch.no_grad():
        expected = {p: recorded(blur, voxels[:, list(p)]) for p in permutations(range(3))}
        for seed in seeds:
            torch.manual_seed(seed)
            found = shuffled(blur, voxels)
            seen.append({p for p, output in expected.items() if torch.equal(output, found)})
    return seen


def test_training_shows_the_model_a_new_order_for_each_seed(small_vrt: Callable[..., VRT]) -> None:
    first, second = (orders_seen(small_vrt, True, list(range(8))) for _ in range(2))
    assert first == second
    assert all(len(orders) == 1 for orders in first)
    # The two ways in which none of three frames keeps its own.
    assert set.union(*first) == {(1, 2, 0), (2, 0, 1)}


def test_evaluation_shows_the_model_one_order(small_vrt: Callable[..., VRT]) -> None:
    assert orders_seen(small_vrt, False, list(range(4))) == [{(2, 0, 1)}] * 4


def test_evaluation_draws_no_random_number(small_vrt: Callable[..., VRT]) -> None:
    model = spike_model(small_vrt(), shuffled=True).eval()
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.zeros(1, 3, 4, 16, 16)
    before = torch.get_rng_state()
    model(blur, voxels)
    assert torch.equal(torch.get_rng_state(), before)


def test_each_clip_of_a_batch_has_its_own_order(small_vrt: Callable[..., VRT]) -> None:
    torch.manual_seed(1)
    blur, voxels = torch.rand(3, 3, 3, 16, 16), torch.randn(3, 3, 4, 16, 16)
    torch.manual_seed(5)
    orders = foreign_frames(3, 3, random=True)
    assert len({tuple(order.tolist()) for order in orders}) == 2
    moved = torch.stack([clip[order] for clip, order in zip(voxels, orders, strict=True)])
    model = spike_model(small_vrt(), shuffled=True)
    with torch.no_grad():
        expected = spike_model(small_vrt(), shuffled=False)(blur, moved)
        torch.manual_seed(5)
        assert torch.equal(model(blur, voxels), expected)


def test_gradients_flow_through_the_order(small_vrt: Callable[..., VRT]) -> None:
    torch.manual_seed(1)
    blur = torch.rand(1, 3, 3, 16, 16)
    voxels = torch.randn(1, 3, 4, 16, 16, requires_grad=True)
    model = spike_model(small_vrt(), shuffled=True)
    (model(blur, voxels) * torch.randn_like(blur)).sum().backward()
    assert voxels.grad is not None
    assert voxels.grad[0].flatten(1).any(dim=1).all(), "the spikes of every frame count"
    stem = model.spike_encoder.stem.weight.grad
    assert stem is not None
    assert stem.any()


def test_a_clip_of_one_frame_has_no_other_spikes(small_vrt: Callable[..., VRT]) -> None:
    blur, voxels = torch.rand(1, 1, 3, 16, 16), torch.zeros(1, 1, 4, 16, 16)
    for training in (True, False):
        model = spike_model(small_vrt(), shuffled=True).train(training)
        with pytest.raises(ConfigError, match=r"SPIKE_ORDER .* found a clip of 1 frame, expected"):
            model(blur, voxels)


@pytest.mark.parametrize(("order", "expected"), [("recorded", False), ("shuffled", True)])
def test_the_settings_decide(order: str, expected: bool) -> None:
    vrt = {"EMBED_DIMS": [8] * 11, "NUM_HEADS": 2, "DEFORMABLE_GROUPS": 2}
    tree = {"VRT_DEPTHS": [1] * 8, "VRT": vrt, "SPIKE_ORDER": order}
    settings = ModelSettings.model_validate(tree)
    model = build_model(settings, bins=4, clip_len=3, crop_size=16)
    assert isinstance(model, VRTSpike)
    assert model.shuffled is expected
