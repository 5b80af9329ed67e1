"""The spike branch and its fusion with the backbone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import PlainVRT, VRTSpike

CPU = torch.device("cpu")


@pytest.fixture
def clip() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.rand(1, 3, 3, 18, 22), torch.randn(1, 3, 4, 18, 22)


def test_the_readout_is_a_convolution_of_the_finest_features(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = VRTSpike(small_vrt(), bins=4).eval()
    torch.nn.init.normal_(model.readout.weight)
    torch.nn.init.normal_(model.readout.bias)
    blur, voxels = clip
    features = model.spike_attention[0](model.spike_encoder(voxels)[0]).permute(0, 1, 4, 2, 3)[0]
    detail = functional.conv2d(
        features, model.readout.weight[:, :, 0], model.readout.bias, padding=1
    )
    torch.testing.assert_close(model(blur, voxels)[0], model.vrt(blur)[0] + detail[..., :18, :22])


def test_each_stage_meets_the_spikes_of_its_scale_and_its_frames(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = VRTSpike(small_vrt(), bins=4, identity=False).eval()
    blur, voxels = clip
    with torch.no_grad():
        features = model.spike_encoder(voxels)
        spikes = [layer(x) for layer, x in zip(model.spike_attention, features, strict=True)]

        def fused(scale: int, x: Tensor) -> Tensor:
            assert x.shape == spikes[scale].shape
            return model.fusion[scale](x, spikes[scale])

        # The readout starts at zero.
        assert torch.equal(model(blur, voxels), model.vrt(blur, fused))


def test_features_of_fewer_frames_are_not_fused(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = VRTSpike(small_vrt(), bins=4, temporal_strides=(1, 2, 1))
    with pytest.raises(ValueError, match="spike features of shape"):
        model(*clip)


@pytest.mark.parametrize(
    "voxels", [None, torch.zeros(1, 3, 5, 18, 22), torch.zeros(1, 2, 4, 18, 22)]
)
def test_wrong_voxels_are_refused(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor], voxels: Tensor | None
) -> None:
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 4\) \+ \(h, w\)"):
        VRTSpike(small_vrt(), bins=4)(clip[0], voxels)


def test_each_spike_pixel_stands_for_those_of_the_frame_that_it_covers(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    blur, voxels = clip
    model = VRTSpike(small_vrt(), bins=4, identity=False).eval()
    sensor = voxels[..., ::2, ::2]
    repeated = sensor.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    torch.testing.assert_close(model(blur, sensor), model(blur, repeated), rtol=0, atol=0)


def test_every_parameter_of_the_backbone_is_in_one_group(small_vrt: Callable[..., VRT]) -> None:
    model = VRTSpike(small_vrt(), bins=4)
    groups = {group: set(names) for group, names in model.rate_groups().items()}
    assert groups.keys() == {"backbone", "flow"}
    assert groups["flow"].isdisjoint(groups["backbone"])
    branch = {name for name, _ in model.named_parameters()} - set().union(*groups.values())
    assert {name.split(".")[0] for name in branch} == {
        *("spike_encoder", "spike_attention", "fusion", "readout")
    }
    assert all(name.startswith("vrt.") for name in groups["backbone"])
    modules = {name.split(".")[1] for name in groups["flow"]}
    assert modules == {"spynet", *(f"stage{number}" for number in range(1, 8))}
    assert "vrt.stage7.pa_deform.weight" in groups["flow"]
    assert not any("residual_group" in name or "pa_fuse" in name for name in groups["flow"])


def test_fixed_flow_is_not_in_the_graph_and_leaves_other_gradients_as_they_are(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = VRTSpike(small_vrt(use_checkpoint_attn=True), bins=4, identity=False)
    flow = set(model.rate_groups()["flow"])
    for name, parameter in model.named_parameters():
        # Layers that start at zero: no flow, no offsets, nothing learned behind them.
        if name in flow or not parameter.any():
            torch.nn.init.normal_(parameter, std=0.05)
    backward: list[torch.Size] = []

    def watch(module: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda grad: backward.append(grad.shape))

    for level in model.vrt.spynet.basic_module:
        level.register_forward_hook(watch)

    def gradients() -> dict[str, Tensor | None]:
        model.zero_grad()
        backward.clear()
        model(*clip).square().mean().backward()
        return {name: p.grad for name, p in model.named_parameters()}

    expected = gradients()
    assert all(grad is not None and grad.any() for grad in expected.values())
    assert len(backward) == 6
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in flow)
    found = gradients()
    assert not backward
    for name, grad in found.items():
        assert (grad is None) == (name in flow), name
        assert grad is None or torch.equal(grad, expected[name]), name


@pytest.mark.parametrize(("attn", "ffn"), list(product([False, True], repeat=2)))
def test_both_switches_compute_flow_and_spike_features_again(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor], attn: bool, ffn: bool
) -> None:
    torch.manual_seed(1)
    vrt = small_vrt(use_checkpoint_attn=attn, use_checkpoint_ffn=ffn)
    model = VRTSpike(vrt, bins=4, clip_len=3, identity=False)
    calls = []
    for part in (model.spike_encoder, model.vrt.spynet):
        part.register_forward_pre_hook(lambda part, _: calls.append(type(part).__name__))
    model(*clip).square().mean().backward()
    times = 2 if attn and ffn else 1
    assert sorted(calls) == times * ["SpikeEncoder3D"] + times * ["SpyNet"]


def test_it_says_what_it_recomputes(small_vrt: Callable[..., VRT]) -> None:
    text = PlainVRT(small_vrt(use_checkpoint_attn=True)).describe(CPU, torch.float32)
    assert text == "model: PlainVRT; checkpoints: DeformableAlignment, WindowAttention"
    text = PlainVRT(small_vrt()).describe(CPU, torch.float32)
    assert text.endswith("; checkpoints: none")
