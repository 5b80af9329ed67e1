"""The spike branch and its fusion with the backbone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from tests.models.checks import published_state_dict
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.models import VRTSpike, build_model


@pytest.fixture
def clip() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.rand(1, 3, 3, 18, 22), torch.randn(1, 3, 4, 18, 22)


def test_the_readout_is_a_convolution_of_the_finest_features(
    small_vrt_spike: Callable[..., VRTSpike], clip: tuple[Tensor, Tensor]
) -> None:
    model = small_vrt_spike().eval()
    torch.nn.init.normal_(model.readout.weight)
    torch.nn.init.normal_(model.readout.bias)
    blur, voxels = clip
    features = model.spike_attention[0](model.spike_encoder(voxels)[0]).permute(0, 1, 4, 2, 3)[0]
    detail = functional.conv2d(
        features, model.readout.weight[:, :, 0], model.readout.bias, padding=1
    )
    torch.testing.assert_close(model(blur, voxels)[0], model.vrt(blur)[0] + detail[..., :18, :22])


def test_each_stage_gets_the_spikes_of_its_scale_and_frames(
    small_vrt_spike: Callable[..., VRTSpike], clip: tuple[Tensor, Tensor]
) -> None:
    model = small_vrt_spike(FUSE={"INIT": "random"}).eval()
    blur, voxels = clip
    with torch.no_grad():
        features = model.spike_encoder(voxels)
        spikes = [layer(x) for layer, x in zip(model.spike_attention, features, strict=True)]

        def fused(scale: int, x: Tensor) -> Tensor:
            assert x.shape == spikes[scale].shape
            return model.fusion[scale](x, spikes[scale])

        # The readout starts at zero.
        assert torch.equal(model(blur, voxels), model.vrt(blur, fused))


def test_each_spike_pixel_covers_its_pixels_of_the_frame(
    small_vrt_spike: Callable[..., VRTSpike], clip: tuple[Tensor, Tensor]
) -> None:
    blur, voxels = clip
    model = small_vrt_spike(FUSE={"INIT": "random"}).eval()
    sensor = voxels[..., ::2, ::2]
    repeated = sensor.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    torch.testing.assert_close(model(blur, sensor), model(blur, repeated), rtol=0, atol=0)


def test_flow_and_alignment_are_one_group_and_the_rest_of_the_backbone_another(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    model = small_vrt_spike()
    names = {name for name, _ in model.vrt.named_parameters(prefix="vrt")}
    flow = {name for name in names if "spynet" in name or "pa_deform" in name}
    groups = {group: set(names) for group, names in model.lr_groups().items()}
    assert groups == {"flow": flow, "backbone": names - flow}


def test_fixed_flow_leaves_other_gradients_as_they_are(
    small_vrt_spike: Callable[..., VRTSpike],
    clip: tuple[Tensor, Tensor],
) -> None:
    model = small_vrt_spike(use_checkpoint_attn=True, FUSE={"INIT": "random"}).double()
    flow = set(model.lr_groups()["flow"])
    for name, parameter in model.named_parameters():
        # Layers that start at zero: no flow, no offsets, nothing learned behind them.
        if name in flow or not parameter.any():
            torch.nn.init.normal_(parameter, std=0.05)
    groups = []
    for fixed in (set[str](), flow):
        model.zero_grad()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in fixed)
        model(*(part.double() for part in clip)).square().mean().backward()
        groups.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    free, others = groups
    assert all(grad.any() for grad in free.values())
    assert others.keys() == free.keys() - flow
    for name, grad in others.items():
        # In double precision: some processors sum in another order where a convolution has fewer
        # gradients to give.
        scale = float(free[name].abs().max())
        torch.testing.assert_close(grad, free[name], rtol=0, atol=1e-6 * scale, msg=name)


@pytest.mark.parametrize(
    ("attn", "ffn", "recomputed"),
    [
        (False, False, "none"),
        (
            True,
            False,
            "DeformableAlignment, TemporalCrossAttention, TemporalSelfAttention, WindowAttention",
        ),
        (False, True, "GEGLU"),
        (
            True,
            True,
            "ParallelWarping, SpikeEncoder, SpyNet, TMSABlock, "
            "TemporalCrossAttention, TemporalSelfAttention",
        ),
    ],
)
def test_the_description_names_recomputed_modules(
    small_vrt_spike: Callable[..., VRTSpike],
    attn: bool,
    ffn: bool,
    recomputed: str,
) -> None:
    model = small_vrt_spike(use_checkpoint_attn=attn, use_checkpoint_ffn=ffn)
    assert model.describe() == f"model: VRTSpike; recomputed: {recomputed}"
    for module in model.modules():
        name = type(module).__name__
        assert getattr(module, "recompute", False) == (name in recomputed.split(", ")), name


def build(
    vrt: dict[str, Any] | None = None, *, pretrained: bool = True, **keys: Any
) -> torch.nn.Module:
    small = {
        "EMBED_DIMS": [8] * 7 + [12] * 4,
        "NUM_HEADS": 2,
        "DEFORMABLE_GROUPS": 2,
        "USE_CHECKPOINT_ATTN": False,
        "USE_CHECKPOINT_FFN": False,
    }
    model = {"VRT_DEPTHS": [1] * 8, "WINDOW_SIZE": (2, 4, 4), "VRT": small | (vrt or {}), **keys}
    data = {"NUM_VOXEL_BINS": 4, "CLIP_LEN": 3}
    settings = DeblurringSettings.model_validate({"MODEL": model, "DATA": data})
    return build_model(settings, pretrained=pretrained)


def test_a_spike_model_and_the_ablation_share_the_backbone() -> None:
    spike, plain = build(), build(USE_SPIKE=False)
    assert isinstance(spike, VRTSpike)
    assert isinstance(plain, VRTSpike)
    assert plain.describe() == "model: VRTSpike without spikes; recomputed: none"
    assert plain.state_dict().keys() < spike.state_dict().keys()
    # An untrained network returns its input; this one shall not.
    torch.nn.init.normal_(spike.vrt.conv_last.weight)
    plain.load_state_dict({k: v for k, v in spike.state_dict().items() if k.startswith("vrt.")})
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.randn(1, 3, 4, 16, 16)
    restored = spike.eval()(blur, voxels)
    assert not torch.equal(restored, blur)
    assert torch.equal(restored, plain.eval()(blur, voxels))


def test_settings_reach_the_model() -> None:
    model = build(
        {"ATTENTION": "sdpa", "MLP_RATIO": 1.5},
        SPIKE_TSA={"HEADS": 2},
        FUSE={"HEADS": 4, "INIT": "random"},
    )
    assert isinstance(model, VRTSpike)
    assert model.bins == 4
    block = model.vrt.get_submodule("stage1.residual_group2.blocks.0")
    assert block.attn.attention == "sdpa"
    assert block.mlp.fc11.out_features == 12
    assert [
        (x.heads, y.heads) for x, y in zip(model.spike_attention, model.fusion, strict=True)
    ] == ([(2, 4)] * 4)
    assert model.fusion[0].proj.weight.any()
    # A network of spikes has two residual blocks a scale, and twice the channels in between.
    assert [len(blocks) for blocks in model.spike_encoder.scales] == [2] * 4
    assert model.fusion[0].mlp[0].out_features == 16


def test_pretrained_weights_are_loaded_and_separate_flow_weights_replace_theirs(
    tmp_path: Path,
) -> None:
    source = build(USE_SPIKE=False)
    assert isinstance(source, VRTSpike)
    whole, flow = tmp_path / "vrt.safetensors", tmp_path / "spynet.safetensors"
    save_file(published_state_dict(source.vrt), whole)
    state = {name: torch.randn_like(t) for name, t in source.vrt.spynet.state_dict().items()}
    save_file(state, flow)
    first = source.vrt.conv_first.weight
    for pretrained in (True, False):
        loaded = build({"PRETRAINED": str(whole), "SPYNET": str(flow)}, pretrained=pretrained)
        assert isinstance(loaded, VRTSpike)
        assert torch.equal(loaded.vrt.conv_first.weight, first) == pretrained
        for name, tensor in loaded.vrt.spynet.state_dict().items():
            if name not in ("mean", "std"):
                assert torch.equal(tensor, state[name]) == pretrained, name
