"""The light model: its layers by hand, what it makes of clips and of spikes of any resolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.data.clips.neighbors import pad_with_means
from vrtspike.deblurring_settings.model import ModelSettings, NAFSettings
from vrtspike.models.channel_attention import ChannelAttention
from vrtspike.models.spike_nafnet import NAFBlock, SpikeNAFNet, mean_and_deviations
from vrtspike.training.half_precision_weights import HalfPrecisionWeights

BINS = 6


def nafnet(bins: int = BINS, **sizes: Any) -> SpikeNAFNet:
    """A network of some sizes, the keys of MODEL.NAF."""
    return SpikeNAFNet(ModelSettings(NAF=NAFSettings(**sizes)), bins)


def small(bins: int = BINS, neighbor_bins: int = 2) -> SpikeNAFNet:
    """A network of 8 channels and two scales, away from its start at zero."""
    sizes = {"WIDTH": 8, "ENCODER_BLOCKS": (1, 2), "MIDDLE_BLOCKS": 1, "DECODER_BLOCKS": (1, 1)}
    model = nafnet(bins, **sizes, SPIKE_WIDTH=4, NEIGHBOUR_BINS=neighbor_bins)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def clip(height: int = 16, width: int = 24, ratio: int = 2) -> tuple[Tensor, Tensor]:
    return (
        torch.rand(1, 3, 3, height, width),
        torch.randn(1, 3, BINS, height // ratio, width // ratio),
    )


def test_a_block_is_that_of_the_paper():
    block = NAFBlock(2)
    x = torch.randn(1, 2, 5, 4)
    assert torch.equal(block(x), x), "residuals start at zero"
    torch.nn.init.ones_(block.scale1)
    torch.nn.init.constant_(block.scale2, 0.5)

    def normed(x: Tensor) -> Tensor:
        centered = x - x.mean(dim=1, keepdim=True)
        return centered / (centered.square().mean(dim=1, keepdim=True) + 1e-6).sqrt()

    wide = block.depthwise(block.expand(normed(x)))
    gated = wide[:, :2] * wide[:, 2:]
    means = gated.mean(dim=(2, 3))[..., None, None]
    weights = functional.conv2d(means, block.attention.weight, block.attention.bias)
    middle = x + block.project(gated * weights)
    wide = block.widen(normed(middle))
    expected = middle + 0.5 * block.narrow(wide[:, :2] * wide[:, 2:])
    torch.testing.assert_close(block(x), expected)


def test_cells_shrink_with_the_scale_of_the_features():
    model = nafnet(
        WIDTH=8, ENCODER_BLOCKS=(1, 1), DECODER_BLOCKS=(1, 1), SPIKE_BLOCKS=2, POOLING_CELL=21
    )
    cells = {
        name.split(".attention")[0]: module.cell
        for name, module in model.named_modules()
        if isinstance(module, ChannelAttention)
    }
    assert cells == {
        "encoder.0.0": 21,
        "encoder.1.0": 11,
        **{f"middle.{number}": 6 for number in range(4)},
        "decoder.0.0": 21,
        "decoder.1.0": 11,
        "spikes.further.0": 11,
        "spikes.blocks.0": 11,
        "spikes.blocks.1": 6,
    }


def test_a_frame_gets_brightness_deviations_and_the_nearest_bins_of_its_neighbours():
    voxels = torch.tensor([[1.0, 3.0, 5.0], [10, 20, 60], [0, 0, 3]]).reshape(1, 3, 3, 1, 1)
    features = mean_and_deviations(pad_with_means(voxels), 1)[0, :, :, 0, 0]
    assert features.tolist() == [
        [3, -2, 0, 2, 0, 10 - 3],
        [30, -20, -10, 30, 5 - 30, 0 - 30],
        [1, -1, -1, 2, 60 - 1, 0],
    ]
    assert torch.equal(
        mean_and_deviations(pad_with_means(voxels), 0)[0, :, :, 0, 0], features[:, :4]
    )
    voxels = torch.arange(12.0).reshape(1, 3, 4, 1, 1)
    mean = voxels[0, 1].mean()
    neighbors = mean_and_deviations(pad_with_means(voxels), 2)[0, 1, 5:, 0, 0] + mean
    assert neighbors.tolist() == [2, 3, 8, 9]


def test_spikes_around_a_clip_are_those_of_its_neighbours():
    model = small()
    blur, voxels = clip()
    whole = mean_and_deviations(pad_with_means(voxels), 2)
    assert torch.equal(mean_and_deviations(voxels, 2), whole[:, 1:2])
    middle = model(blur[:, 1:2], voxels)
    torch.testing.assert_close(middle, model(blur, voxels)[:, 1:2])
    assert not torch.allclose(middle, model(blur[:, 1:2], voxels[:, 1:2]))
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 6\)"):
        model(blur, torch.cat((voxels, voxels), dim=1))


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_a_learned_enlargement_starts_as_the_bilinear_one_and_adds_detail(ratio):
    sizes = {"WIDTH": 8, "ENCODER_BLOCKS": (1, 1), "DECODER_BLOCKS": (1, 1), "SPIKE_WIDTH": 4}
    blur, voxels = clip(ratio=ratio)

    def build(**further: bool) -> SpikeNAFNet:
        torch.manual_seed(0)
        model = nafnet(**sizes, NEIGHBOUR_BINS=2, **further)
        torch.nn.init.ones_(model.readout.weight)
        return model

    plain, learned = build(), build(LEARNED_ENLARGEMENT=True)
    learned.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(learned(blur, voxels), plain(blur, voxels))
    assert learned.detail is not None
    torch.nn.init.ones_(learned.detail[0].weight)
    outputs: list[Tensor] = []
    learned.detail.register_forward_hook(lambda _, inputs, output: outputs.append(output))
    learned(blur, voxels)
    assert outputs[0].shape == (3, 4, 16, 24)


def test_further_blocks_work_at_the_resolution_of_the_sensor():
    sizes = {"WIDTH": 8, "ENCODER_BLOCKS": (1, 1), "DECODER_BLOCKS": (1, 1), "SPIKE_WIDTH": 4}
    model = nafnet(**sizes, NEIGHBOUR_BINS=2, SPIKE_BLOCKS=3)
    shapes: list[torch.Size] = []
    for module in model.spikes.modules():
        if isinstance(module, NAFBlock):
            module.register_forward_hook(lambda _, inputs, output: shapes.append(output.shape[-2:]))
    model(*clip())
    assert sorted(map(tuple, shapes)) == [(4, 6)] + 3 * [(8, 12)]


@pytest.mark.parametrize(("ratio", "resolution"), [(1, (16, 24)), (2, (8, 12)), (4, (8, 12))])
def test_spikes_are_encoded_at_the_resolution_of_the_sensor(ratio, resolution):
    """Or, where it is coarser than the coarsest scale, at that scale's."""
    model = small()
    blur, voxels = clip(ratio=ratio)
    sizes = []
    model.spikes.stem.register_forward_pre_hook(lambda _, x: sizes.append(x[0].shape[-2:]))
    assert model(blur, voxels).shape == blur.shape
    assert sizes == [resolution]


def test_sizes_that_no_scale_divides_are_padded_at_their_end():
    model = small()
    blur, voxels = clip(12, 20)
    cut = blur[..., :11, :], voxels
    whole = torch.cat((cut[0], cut[0][..., 10:, :]), dim=-2)
    torch.testing.assert_close(model(*cut), model(whole, voxels)[..., :11, :])


@pytest.mark.parametrize(("bins", "reached"), [(0, [1]), (2, [0, 1, 2])])
def test_a_frame_is_restored_from_itself_and_spikes_about_its_exposure(bins, reached):
    model = small(neighbor_bins=bins)
    blur, voxels = torch.rand(1, 4, 3, 16, 24), torch.randn(1, 4, BINS, 8, 12)
    restored = model(blur, voxels)
    torch.testing.assert_close(model(blur[:, :3], voxels[:, :3])[:, :2], restored[:, :2])
    others = voxels.clone()
    others[:, 1] += torch.randn(BINS, 1, 1)
    changed = (model(blur, others) - restored).abs().amax(dim=(0, 2, 3, 4))
    assert [n for n in range(4) if changed[n] > 1e-4] == reached
    assert changed[[n for n in range(4) if n not in reached]].max() < 1e-6


def test_spikes_reach_each_scale_and_the_picture():
    blur, voxels = clip()
    for part in ("fusion.0.weight", "fusion.1.weight", "readout.weight"):
        model = small()
        restored = model(blur, voxels)
        weight = model.get_parameter(part)
        with torch.no_grad():  # the channels of the spikes are the last ones
            weight[:, -4:] = 0
        assert (model(blur, voxels) - restored).abs().max() > 1e-4, part


def test_without_spikes_it_has_no_parameters_for_them():
    model = small(bins=0)
    blur, voxels = clip()
    assert torch.equal(model(blur, voxels), model(blur, None))
    assert not [name for name in model.state_dict() if "spike" in name or "fusion" in name]


def residual_and_gradients(model: SpikeNAFNet, forward_module: nn.Module) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    blur, voxels = clip()
    model.zero_grad()
    residual = forward_module(blur, voxels) - blur
    assert residual.dtype == torch.float32, "a restored frame is not rounded"
    residual.square().sum().backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters()]
    return residual.detach(), torch.cat(gradients)


def test_half_weights_keep_features_in_half_precision_and_cost_rounding_alone():
    model = small()
    types = []
    for block in model.modules():
        if isinstance(block, NAFBlock):
            block.register_forward_hook(lambda block, x, y: types.append(y.dtype))
    expected = residual_and_gradients(model, model)
    types.clear()
    with torch.autocast("cpu", torch.bfloat16):
        measured = residual_and_gradients(model, HalfPrecisionWeights(model, torch.bfloat16))
    assert set(types) == {torch.bfloat16}
    for values, reference in zip(measured, expected, strict=True):
        difference = (values - reference).norm() / reference.norm()
        assert 0 < difference < 0.02  # 2^-8 for each of some products


def test_after_a_step_every_parameter_learns():
    sizes = {"WIDTH": 4, "ENCODER_BLOCKS": (1,), "MIDDLE_BLOCKS": 1, "DECODER_BLOCKS": (1,)}
    model = nafnet(**sizes, SPIKE_WIDTH=4, NEIGHBOUR_BINS=2)
    blur, voxels = clip()
    for _ in range(3):
        model.zero_grad()
        (model(blur, voxels) - 0.3).square().sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
    still = [name for name, weight in model.named_parameters() if not weight.grad.abs().sum() > 0]
    assert still == []
