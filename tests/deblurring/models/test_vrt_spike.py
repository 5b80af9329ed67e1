"""The spike branch and its fusion with the backbone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models.chunking import ChunkPolicy, ChunkShape
from vrtspike.deblurring.models.spike_encoder import (
    ResidualBlock3D,
    SpikeEncoder3D,
    check_time_lengths,
)
from vrtspike.deblurring.models.temporal_attention import (
    SpikeTemporalSA,
    TemporalCrossAttn,
    attend_over_time,
)
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import PlainVRT, VRTSpike
from vrtspike.deblurring.models.windows import PlanCache
from vrtspike.errors import ConfigError

POLICIES = [
    ChunkPolicy(max_tokens=1),
    ChunkPolicy(max_tokens=100),
    ChunkPolicy(max_tokens=10**9),
    *(ChunkPolicy(adaptive=False, size=4, shape=shape) for shape in get_args(ChunkShape)),
    ChunkPolicy(adaptive=False, size=1),
    ChunkPolicy(adaptive=False, size=640),
]


@pytest.fixture
def clip() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.rand(1, 3, 3, 18, 22), torch.randn(1, 3, 4, 18, 22)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_chunks_do_not_change_the_result(policy: ChunkPolicy, training: bool) -> None:
    torch.manual_seed(0)
    x, spikes = torch.randn(2, 2, 3, 5, 9, 8, dtype=torch.float64)
    whole = ChunkPolicy(max_tokens=10**9)
    attention = SpikeTemporalSA(8, 4, 2, whole, checkpoint=training).double()
    fusion = TemporalCrossAttn(8, 4, 2, whole, identity=False, checkpoint=training).double()

    def run() -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(training):
            return attention(x), fusion(x, spikes)

    expected = run()
    attention.chunks = fusion.chunks = policy
    torch.testing.assert_close(run(), expected, rtol=0, atol=1e-12)


def test_the_backbone_says_how_attention_along_time_is_computed(
    small_vrt: Callable[..., VRT],
) -> None:
    model = VRTSpike(small_vrt(attention="triton"), bins=4)
    x = torch.rand(1, 3, 4, 4, 8)
    with pytest.raises(ConfigError, match="'triton' needs a CUDA device"):
        model.spike_attention[0](x)
    with pytest.raises(ConfigError, match="'triton' needs a CUDA device"):
        model.fusion[0](x, x)


@pytest.mark.parametrize("implementation", ["explicit", "fused"])
def test_implementations_of_attention_along_time_agree(implementation: str) -> None:
    # More pixels than a kernel of PyTorch takes problems.
    qkv = torch.randn(2, 3, 33000, 12, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(2, 3, 33000, 4, dtype=torch.float64)
    expected = attend_over_time(qkv, bias, PlanCache())
    found = attend_over_time(qkv, bias, PlanCache(), implementation)
    torch.testing.assert_close(found, expected)
    inputs = (qkv, bias)
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    )


def test_attention_runs_along_time_only() -> None:
    torch.manual_seed(0)
    layer = SpikeTemporalSA(8, 2, 2, ChunkPolicy())
    x = torch.randn(1, 3, 4, 4, 8, requires_grad=True)
    # A random direction: the layer norms take out any that is equal on all channels.
    (layer(x)[0, 1, 2, 3] * torch.randn(8)).sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().amax(dim=-1)
    assert (seen[:, 2, 3] > 1e-3).all(), "every frame of the pixel counts"
    seen[:, 2, 3] = 0
    assert not seen.any(), "no other pixel does"


def test_the_residual_carries_the_input_and_not_its_norm() -> None:
    layer = TemporalCrossAttn(8, 2, 2, ChunkPolicy(), identity=True)
    x = 100 * torch.randn(1, 2, 3, 3, 8)
    assert torch.equal(layer(x, torch.randn_like(x)), x)


def test_encoder_scales() -> None:
    encoder = SpikeEncoder3D(4, (8, 12, 16, 20))
    features = encoder(torch.randn(1, 3, 4, 17, 24))
    shapes = [tuple(f.shape) for f in features]
    assert shapes == [
        (1, 3, 24, 24, 8),
        (1, 3, 12, 12, 12),
        (1, 3, 6, 6, 16),
        (1, 3, 3, 3, 20),
    ]


def test_encoder_by_hand() -> None:
    torch.manual_seed(0)
    encoder = SpikeEncoder3D(3, (4, 6)).double()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    voxels = torch.randn(1, 3, 3, 4, 6, dtype=torch.float64)

    def conv(layer: torch.nn.Module, x: Tensor, stride: int = 1) -> Tensor:
        assert isinstance(layer, torch.nn.Conv3d)
        return functional.conv3d(x, layer.weight, layer.bias, (1, stride, stride), padding=1)

    def blocks(number: int, x: Tensor) -> Tensor:
        scale = encoder.scales[number]
        assert isinstance(scale, torch.nn.Sequential)
        for block in scale:
            assert isinstance(block, ResidualBlock3D)
            x = (x + conv(block.conv2, conv(block.conv1, x).relu())).relu()
        return x

    mean = voxels.mean(dim=2, keepdim=True)
    x = torch.cat((mean, voxels - mean), dim=2).transpose(1, 2)
    fine = blocks(0, conv(encoder.stem, x).relu())
    coarse = blocks(1, conv(encoder.downs[0], fine, stride=2))
    for found, expected in zip(encoder(voxels), (fine, coarse), strict=True):
        torch.testing.assert_close(found, expected.permute(0, 2, 3, 4, 1))


def test_an_untrained_encoder_keeps_the_size_of_its_input() -> None:
    torch.manual_seed(0)
    encoder = SpikeEncoder3D(16, (32,) * 4)
    for number, features in enumerate(encoder(torch.randn(1, 3, 16, 64, 64))):
        # PyTorch's own start leaves 0.34, 0.12, 0.05 and 0.03.
        assert 0.4 < features.square().mean().sqrt() < 1.2, f"scale {number}"


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


def test_time_lengths_are_checked() -> None:
    check_time_lengths(SpikeEncoder3D(4, (8,) * 4), 5)
    encoder = SpikeEncoder3D(4, (8,) * 4, (1, 2, 1))
    lengths = [f.shape[1] for f in encoder(torch.randn(1, 5, 4, 8, 8))]
    assert lengths == encoder.frames_at_scales(5) == [5, 5, 3, 3]
    with pytest.raises(ConfigError, match=r"\[5, 5, 3, 3\] frames for a clip of 5"):
        check_time_lengths(encoder, 5)


def test_features_of_fewer_frames_are_not_fused(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = VRTSpike(small_vrt(), bins=4, temporal_strides=(1, 2, 1))
    with pytest.raises(ValueError, match="spike features of shape"):
        model(*clip)


def test_it_starts_out_equal_to_the_backbone(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    vrt = small_vrt()
    blur, voxels = clip
    model = VRTSpike(vrt, bins=4)
    assert torch.equal(model(blur, voxels), vrt(blur))
    other = VRTSpike(vrt, bins=4, identity=False)
    assert not torch.equal(other(blur, voxels), vrt(blur))


def test_all_parts_learn(small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]) -> None:
    blur, voxels = clip
    model = VRTSpike(small_vrt(), bins=4, identity=False)
    model(blur, voxels).square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    assert model.spike_encoder.stem.weight.grad is not None
    assert model.spike_encoder.stem.weight.grad.any()


@pytest.mark.parametrize(
    "voxels", [None, torch.zeros(1, 3, 5, 18, 22), torch.zeros(1, 3, 4, 9, 11)]
)
def test_wrong_voxels_are_refused(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor], voxels: Tensor | None
) -> None:
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 4, 18, 22\)"):
        VRTSpike(small_vrt(), bins=4)(clip[0], voxels)


def test_plain_vrt_ignores_voxels(
    small_vrt: Callable[..., VRT], clip: tuple[Tensor, Tensor]
) -> None:
    model = PlainVRT(small_vrt())
    assert torch.equal(model(*clip), model(clip[0]))


def test_heads_must_divide_the_channels() -> None:
    with pytest.raises(ConfigError, match=r"SPIKE_TSA.*no multiple of HEADS, 3"):
        SpikeTemporalSA(8, 3, 2, ChunkPolicy())


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


def test_it_says_how_it_computes(small_vrt: Callable[..., VRT]) -> None:
    model = PlainVRT(small_vrt(use_checkpoint_attn=True))
    text = model.describe(torch.device("cpu"), torch.float32)
    assert "recompute (auto asked for)" in text
    assert "cheap (auto asked for)" in text
    assert "checkpointing: attention" in text


def test_fusion_by_hand() -> None:
    torch.manual_seed(0)
    layer = TemporalCrossAttn(8, 2, 1, ChunkPolicy(), identity=False)
    torch.nn.init.normal_(layer.time.correction)
    x, spikes = 3 * torch.randn(2, 1, 4, 1, 1, 8)
    u = torch.cat((layer.norm_direct(x), spikes), dim=-1)
    direct = layer.direct
    x1 = x + direct.fc2(functional.gelu(direct.fc11(u)) * direct.fc12(u))
    q = layer.query(layer.norm_query(x1)).view(4, 2, 4).transpose(0, 1)
    key_value = layer.key_value(layer.norm_spikes(spikes)).view(4, 2, 2, 4)
    k, v = key_value.permute(1, 2, 0, 3)
    scores = q @ k.transpose(-2, -1) / 2
    for head, slope in enumerate((4, 0.5)):
        for t, other in product(range(4), range(4)):
            learned = layer.time.correction[head, max(-1, min(other - t, 1)) + 1]
            scores[head, t, other] += learned - slope * abs(other - t)
    middle = x1 + layer.proj((scores.softmax(-1) @ v).transpose(0, 1).reshape(x.shape))
    expected = middle + layer.mlp(layer.norm2(middle))
    torch.testing.assert_close(layer(x, spikes), expected)


def test_self_attention_along_time_by_hand() -> None:
    torch.manual_seed(0)
    layer = SpikeTemporalSA(8, 2, 1, ChunkPolicy()).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 3, 1, 1, 8, dtype=torch.float64)
    norm1, norm2 = layer.norm1, layer.norm2
    normed = functional.layer_norm(x, (8,), norm1.weight, norm1.bias)
    q, k, v = layer.qkv(normed).view(3, 3, 2, 4).permute(1, 2, 0, 3)
    scores = q @ k.transpose(-2, -1) / 2
    for head, slope in enumerate((4, 0.5)):
        for t, other in product(range(3), range(3)):
            learned = layer.time.correction[head, max(-1, min(other - t, 1)) + 1]
            scores[head, t, other] += learned - slope * abs(other - t)
    middle = x + layer.proj((scores.softmax(-1) @ v).transpose(0, 1).reshape(x.shape))
    normed = functional.layer_norm(middle, (8,), norm2.weight, norm2.bias)
    first, last = layer.mlp[0], layer.mlp[2]
    expected = middle + last(functional.gelu(first(normed)))
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.endurance
@pytest.mark.slow
def test_two_processes_make_the_gradients_of_one() -> None:
    check = Path(__file__).with_name("ddp_check.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run([*command, str(check)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
