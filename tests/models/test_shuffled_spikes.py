"""Shuffled spikes: the order of frames, and models that get it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import pytest
import torch
from torch import Tensor

from vrtspike.deblurring_settings.model import ModelSettings, NAFSettings
from vrtspike.models import Restorer, VRTSpike
from vrtspike.models.shuffled_spikes import (
    ShuffledSpikes,
    derangements,
    mirror_ends,
    take_neighbors,
)
from vrtspike.models.spike_nafnet import SpikeNAFNet
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


def neighbors_taken(*, random: bool) -> Tensor:
    """Of frames 1 to 3 of 200 clips, with those before and after: distance of the frame taken."""
    voxels = torch.arange(5).expand(200, 5)[..., None, None, None]
    return take_neighbors(voxels, random=random)[..., 0, 0, 0] - torch.arange(1, 4)


def test_a_frame_takes_the_spikes_before_or_after_it() -> None:
    torch.manual_seed(0)
    distances = neighbors_taken(random=True)
    assert distances.unique().tolist() == [-1, 1]
    # Each frame of each clip draws for itself.
    assert {tuple(clip) for clip in distances.tolist()} == set(product((-1, 1), repeat=3))
    torch.manual_seed(0)
    assert torch.equal(neighbors_taken(random=True), distances)
    assert neighbors_taken(random=False).unique().tolist() == [-1]


def small_nafnet() -> SpikeNAFNet:
    """A network of 4 bins, 2 of them of either neighbour, away from its start at zero."""
    torch.manual_seed(0)
    sizes = {"WIDTH": 8, "ENCODER_BLOCKS": (1, 2), "MIDDLE_BLOCKS": 1, "DECODER_BLOCKS": (1, 1)}
    naf = NAFSettings(**sizes, SPIKE_WIDTH=4, NEIGHBOUR_BINS=2)
    network = SpikeNAFNet(ModelSettings(NAF=naf), bins=4)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()


def control(model: Restorer, *, neighbors: bool = False) -> ShuffledSpikes:
    """The control of a model."""
    one_by_one = isinstance(model, SpikeNAFNet)
    return ShuffledSpikes(model, bins=4, neighbors=neighbors, one_by_one=one_by_one).eval()


def clip(frames: int, clips: int = 1) -> tuple[Tensor, Tensor]:
    """Frames of 16 x 24 pixels with the voxels of a sensor of half the size."""
    return torch.rand(clips, frames, 3, 16, 24), torch.randn(clips, frames, 4, 8, 12)


def orders_seen(model: ShuffledSpikes, seed: int) -> list[list[int]]:
    """For each of two clips of three frames, the frames whose spikes the model is given."""
    inputs_seen = []
    hook = model.model.register_forward_pre_hook(lambda _, x: inputs_seen.append(x[1]))
    voxels = torch.arange(6.0).view(2, 3, 1, 1, 1).expand(2, 3, 4, 16, 16)
    torch.manual_seed(seed)
    with torch.no_grad():
        model(torch.rand(2, 3, 3, 16, 16), voxels)
    hook.remove()
    return (inputs_seen[0][:, :, 0, 0, 0] - torch.tensor([[0.0], [3.0]])).int().tolist()


def test_training_shows_each_clip_a_new_order_for_each_seed_and_evaluation_one(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    model = control(small_vrt_spike()).train()
    orders_by_seed = [orders_seen(model, seed) for seed in range(8)]
    assert orders_by_seed == [orders_seen(model, seed) for seed in range(8)]
    # The two ways in which none of three frames keeps its own.
    assert {tuple(order) for orders in orders_by_seed for order in orders} == {(1, 2, 0), (2, 0, 1)}
    assert any(first != second for first, second in orders_by_seed)
    assert orders_seen(model.eval(), 3) == orders_seen(model, 4) == [[2, 0, 1]] * 2


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("neighbors", [True, False])
def test_a_clip_of_one_frame_has_no_other_spikes(training: bool, neighbors: bool) -> None:
    model = control(small_nafnet(), neighbors=neighbors).train(training)
    with pytest.raises(ConfigError, match=r"SPIKE_ORDER .* found a clip of 1 frame, expected"):
        model(*clip(frames=1))


@pytest.mark.parametrize("neighbors", [True, False])
def test_voxels_of_other_clips_are_refused(neighbors: bool) -> None:
    model = control(small_nafnet(), neighbors=neighbors)
    blur, voxels = clip(frames=3, clips=2)
    for others in (None, voxels[:, :2], voxels[:1], voxels[:, :, :3]):
        with pytest.raises(ValueError, match=r"expected voxels of shape \(2, 3, 4\)"):
            model(blur, others)


def test_a_frame_never_gets_its_own_spikes() -> None:
    """Not as those next to the exposure of another frame either."""
    model = control(small_nafnet())
    blur, voxels = clip(frames=3)
    restored = model(blur, voxels)
    others = voxels.clone()
    others[:, 1] += torch.randn(4, 1, 1)
    changed = (model(blur, others) - restored).abs().amax(dim=(0, 2, 3, 4))
    assert changed[1] < 1e-6
    assert changed[2] > 1e-4


@pytest.mark.parametrize(
    ("neighbors", "others"), [(False, [2, 3, 0, 1]), (True, [1, 0, 1, 2])], ids=["clip", "beside"]
)
def test_a_frame_is_restored_with_the_spikes_of_another_alone(
    neighbors: bool, others: list[int]
) -> None:
    network = small_nafnet()
    blur, voxels = clip(frames=4, clips=2)
    restored = control(network, neighbors=neighbors)(blur, voxels)
    for frame, other in enumerate(others):
        expected = network(blur[:, [frame]], voxels[:, [other]])
        torch.testing.assert_close(restored[:, [frame]], expected)


def test_bins_of_neighbours_deviate_by_zero() -> None:
    network = small_nafnet()
    inputs = []
    network.spikes.stem.register_forward_pre_hook(lambda _, x: inputs.append(x[0]))
    blur, voxels = clip(frames=3)
    control(network)(blur, voxels)
    network(blur, voxels[:, [2, 0, 1]])
    # The mean and the four bins are those of the other frame.
    assert torch.equal(inputs[0][:, :5], inputs[1][:, :5])
    assert inputs[0].shape[1] == 9
    assert not inputs[0][:, 5:].any()
    assert inputs[1][:, 5:].any()


def test_single_frames_get_the_spikes_before_or_after() -> None:
    network = small_nafnet()
    model = control(network, neighbors=True)
    blur, _ = clip(frames=1, clips=8)
    _, voxels = clip(frames=3, clips=8)
    before, itself, after = (network(blur, voxels[:, [place]]) for place in range(3))
    torch.testing.assert_close(model(blur, voxels), before)
    model.train()
    places = set()
    for restored, *choices in zip(model(blur, voxels), before, itself, after, strict=True):
        places.add([torch.allclose(restored, other, atol=1e-5) for other in choices].index(True))
    assert places == {0, 2}


def test_other_models_keep_their_clips_whole(small_vrt_spike: Callable[..., VRTSpike]) -> None:
    network = small_vrt_spike().eval()
    torch.nn.init.normal_(network.readout.weight)
    blur, voxels = clip(frames=3, clips=2)
    expected = network(blur, voxels[:, [2, 0, 1]])
    assert torch.equal(control(network)(blur, voxels), expected)


def test_weights_are_saved_and_loaded_as_those_of_the_model() -> None:
    """Also within the copy of a moving average (TRAIN.EMA)."""
    network = small_nafnet()
    model = control(network)
    assert list(model.state_dict()) == list(network.state_dict())
    average = torch.optim.swa_utils.AveragedModel(model)
    saved = average.state_dict()
    assert list(saved) == ["n_averaged", *(f"module.{name}" for name in network.state_dict())]
    average.load_state_dict({name: tensor + 1 for name, tensor in saved.items()})
    assert torch.equal(average.module.model.ending.weight, network.ending.weight + 1)
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict({**network.state_dict(), "other": torch.zeros(1)})


def test_the_rest_is_that_of_the_model(small_vrt_spike: Callable[..., VRTSpike]) -> None:
    network = small_vrt_spike()
    model = control(network)
    assert model.describe() == f"{network.describe()}; with the spikes of other frames"
    assert not model.half_precision_weights
    assert control(small_nafnet()).half_precision_weights
    parameters = dict(model.named_parameters())
    for group, names in network.lr_groups().items():
        expected = [network.get_parameter(name) for name in names]
        assert expected
        grouped = [parameters[name] for name in model.lr_groups()[group]]
        assert list(map(id, grouped)) == list(map(id, expected))
    model.compile(backend="eager")
    compiled = {type(m).__name__ for m in model.modules() if m._compiled_call_impl is not None}
    assert compiled == {"TMSABlock"}
