"""What the variants of the light model are, and what the table says of them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

import light_variants
from learning import preset_settings
from vrtspike.deblurring.models import build_model, spike_nafnet

SMALL = {
    "MODEL.NAF.WIDTH": 8,
    "MODEL.NAF.SPIKE_WIDTH": 8,
    "MODEL.NAF.ENCODER_BLOCKS": "[1,1]",
    "MODEL.NAF.DECODER_BLOCKS": "[1,1]",
    "DATA.NUM_VOXEL_BINS": 8,
}


def network(name: str) -> spike_nafnet.SpikeNAFNet:
    """A variant in small; all of its layers do something."""
    variant = light_variants.VARIANTS[name]
    settings = preset_settings("light_demo", {**SMALL, **variant.settings})
    torch.manual_seed(0)
    with patch.object(spike_nafnet, "SpikeNAFNet", variant.network):
        built = build_model(settings)
    assert isinstance(built, spike_nafnet.SpikeNAFNet)
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return built.eval()


def effect(name: str, frame: int) -> list[bool]:
    """Which restored frames change with all bins of a frame."""
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.randn(1, 3, 8, 8, 8)
    model = network(name)
    with torch.no_grad():
        before = model(blur, voxels)
        voxels[:, frame] = torch.randn(1, 8, 8, 8)
        difference = (model(blur, voxels) - before).abs().amax(dim=(0, 2, 3, 4))
    return [value > 1e-6 for value in difference.tolist()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("**light_demo**: 8 bins of either neighbour", [True, True, False]),
        ("no bins of neighbours", [True, False, False]),
        ("no bins, but features of neighbours", [True, True, False]),
        ("+ channel attention between modalities", [True, True, False]),
        ("without spikes", [False, False, False]),
    ],
)
def test_which_frames_see_the_spikes_of_the_first(name: str, expected: list[bool]) -> None:
    if name == "without spikes":
        assert network(name).bins == 0
    else:
        assert effect(name, 0) == expected


def test_an_encoding_symmetric_in_time_does_not_see_its_direction() -> None:
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.randn(1, 3, 8, 8, 8)
    for name, same in (("+ encoding symmetric in time", True), ("no bins of neighbours", False)):
        model = network(name)
        with torch.no_grad():
            forward = model(blur, voxels)
            backward = model(blur.flip(1), voxels.flip(1, 2)).flip(1)
        assert torch.allclose(forward, backward, atol=1e-5) == same


def test_channel_attention_weighs_frames_by_spikes_and_spikes_by_frames() -> None:
    torch.manual_seed(0)
    fusion = light_variants.CrossModalFusion(4, 2)
    frames, spikes = torch.randn(1, 4, 5, 5), torch.randn(1, 2, 5, 5)
    one = fusion.of_frames(spikes.mean(dim=(2, 3), keepdim=True)).sigmoid() * 2
    other = fusion.of_spikes(frames.mean(dim=(2, 3), keepdim=True)).sigmoid() * 2
    weights, bias = fusion.join.weight[..., 0, 0], fusion.join.bias
    expected = torch.einsum("of,nfhw->nohw", weights[:, :4], frames * one)
    expected += torch.einsum("of,nfhw->nohw", weights[:, 4:], spikes * other)
    found = fusion(torch.cat((frames, spikes), dim=1))
    assert torch.allclose(found, expected + bias[:, None, None], atol=1e-6)


def test_the_table_has_means_ranges_and_costs() -> None:
    name, other, *_ = light_variants.VARIANTS
    runs = {
        name: {
            "0": {"psnr": 30.0, "tof": 0.5, "gflop": 2.0},
            "7": {"psnr": 30.5, "tof": 0.75, "gflop": 2.0},
        },
        "unknown": {"3": {"psnr": 1.0, "tof": 1.0, "gflop": 1.0}},
    }
    text = light_variants.section(runs)
    assert f"| {name} | 30.25 | 30.00 to 30.50 | 0.62 | 2.00 |" in text
    assert other not in text
    assert "unknown" not in text


def test_arithmetic_is_counted_for_one_frame() -> None:
    settings = preset_settings("light_demo", {**SMALL, "MODEL.USE_SPIKE": "false"})
    side, width = light_variants.SIDE, 8
    intro = 2 * side**2 * 9 * 3 * width
    assert intro < light_variants.gflop(settings) * 1e9 < 40 * intro
