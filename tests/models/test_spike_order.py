"""Shuffled spikes: the order of frames, and its use in the model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import pytest
import torch
from torch import Tensor

from vrtspike.models import VRTSpike
from vrtspike.models.spike_order import derangements, mirror_ends, take_neighbours
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("frames", [2, 3, 5, 6])
def test_every_frame_is_taken_once_and_by_another(frames: int, random: bool) -> None:
    torch.manual_seed(0)
    orders = derangements(200, frames, random=random)
    identity = torch.arange(frames)
    assert torch.equal(orders.sort(dim=1).values, identity.expand(200, frames))
    assert not (orders == identity).any()


def test_random_orders_differ_between_clips_and_all_frames_meet() -> None:
    torch.manual_seed(0)
    orders = derangements(200, 4, random=True)
    met = {(t, int(other)) for order in orders for t, other in enumerate(order)}
    assert met == set(permutations(range(4), 2))
    # (4 - 1)! rings of four frames.
    assert len({tuple(order.tolist()) for order in orders}) == 6


def test_the_fixed_order_moves_frames_by_half_a_clip() -> None:
    torch.manual_seed(0)
    assert derangements(2, 5, random=False).tolist() == [[3, 4, 0, 1, 2]] * 2
    assert derangements(1, 6, random=False).tolist() == [[3, 4, 5, 0, 1, 2]]


def test_clips_are_mirrored_at_their_ends() -> None:
    for frames, expected in ((2, [1, 0, 1, 0]), (4, [1, 0, 1, 2, 3, 2])):
        clips = torch.stack((torch.arange(frames), 10 + torch.arange(frames)))
        mirrored = mirror_ends(clips[..., None, None, None])[..., 0, 0, 0]
        assert mirrored.tolist() == [expected, [10 + frame for frame in expected]]


def neighbours_taken(*, random: bool) -> Tensor:
    """Of frames 1 to 3 of 200 clips, with those before and after: distance of the frame taken."""
    voxels = torch.arange(5).expand(200, 5)[..., None, None, None]
    return take_neighbours(voxels, random=random)[..., 0, 0, 0] - torch.arange(1, 4)


def test_a_frame_takes_the_spikes_before_or_after_it() -> None:
    torch.manual_seed(0)
    distances = neighbours_taken(random=True)
    assert distances.unique().tolist() == [-1, 1]
    # Each frame of each clip draws for itself.
    assert {tuple(clip) for clip in distances.tolist()} == set(product((-1, 1), repeat=3))
    torch.manual_seed(0)
    assert torch.equal(neighbours_taken(random=True), distances)
    assert neighbours_taken(random=False).unique().tolist() == [-1]


def orders_seen(model: VRTSpike, seed: int) -> list[list[int]]:
    """For each of two clips of three frames, the frames whose spikes the encoder is given."""
    batches = []
    hook = model.spike_encoder.register_forward_pre_hook(
        lambda _, inputs: batches.append(inputs[0])
    )
    voxels = torch.arange(6.0).view(2, 3, 1, 1, 1).expand(2, 3, 4, 16, 16)
    torch.manual_seed(seed)
    with torch.no_grad():
        model(torch.rand(2, 3, 3, 16, 16), voxels)
    hook.remove()
    return (batches[0][:, :, 0, 0, 0] - torch.tensor([[0.0], [3.0]])).int().tolist()


def test_training_shows_each_clip_a_new_order_for_each_seed_and_evaluation_one(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    model = small_vrt_spike(SPIKE_ORDER="shuffled").train()
    orders_by_seed = [orders_seen(model, seed) for seed in range(8)]
    assert orders_by_seed == [orders_seen(model, seed) for seed in range(8)]
    # The two ways in which none of three frames keeps its own.
    assert {tuple(order) for orders in orders_by_seed for order in orders} == {(1, 2, 0), (2, 0, 1)}
    assert any(first != second for first, second in orders_by_seed)
    assert orders_seen(model.eval(), 3) == orders_seen(model, 4) == [[2, 0, 1]] * 2
    assert orders_seen(small_vrt_spike().eval(), 3) == [[0, 1, 2]] * 2


def test_a_clip_of_one_frame_has_no_other_spikes(small_vrt_spike: Callable[..., VRTSpike]) -> None:
    blur, voxels = torch.rand(1, 1, 3, 16, 16), torch.zeros(1, 1, 4, 16, 16)
    for training in (True, False):
        model = small_vrt_spike(SPIKE_ORDER="shuffled").train(training)
        with pytest.raises(ConfigError, match=r"SPIKE_ORDER .* found a clip of 1 frame, expected"):
            model(blur, voxels)
