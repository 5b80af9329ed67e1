"""The spike branch and its fusion with the backbone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from vrtspike.deblurring.models import PlainVRT, VRTSpike, build_model
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.weights import published_state_dict
from vrtspike.deblurring.settings import Settings


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


def test_each_stage_meets_the_spikes_of_its_scale_and_its_frames(
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


@pytest.mark.parametrize(
    "voxels", [None, torch.zeros(1, 3, 5, 18, 22), torch.zeros(1, 2, 4, 18, 22)]
)
def test_wrong_voxels_are_refused(
    small_vrt_spike: Callable[..., VRTSpike], clip: tuple[Tensor, Tensor], voxels: Tensor | None
) -> None:
    with pytest.raises(ValueError, match=r"expected voxels of shape \(1, 3, 4\) \+ \(h, w\)"):
        small_vrt_spike()(clip[0], voxels)


def test_each_spike_pixel_stands_for_those_of_the_frame_that_it_covers(
    small_vrt_spike: Callable[..., VRTSpike], clip: tuple[Tensor, Tensor]
) -> None:
    blur, voxels = clip
    model = small_vrt_spike(FUSE={"INIT": "random"}).eval()
    sensor = voxels[..., ::2, ::2]
    repeated = sensor.repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    torch.testing.assert_close(model(blur, sensor), model(blur, repeated), rtol=0, atol=0)


def test_every_parameter_of_the_backbone_is_in_one_group(
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    model = small_vrt_spike()
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
    small_vrt: Callable[..., VRT],
    small_vrt_spike: Callable[..., VRTSpike],
    clip: tuple[Tensor, Tensor],
) -> None:
    model = small_vrt_spike(small_vrt(use_checkpoint_attn=True), FUSE={"INIT": "random"})
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
    small_vrt: Callable[..., VRT],
    small_vrt_spike: Callable[..., VRTSpike],
    clip: tuple[Tensor, Tensor],
    attn: bool,
    ffn: bool,
) -> None:
    torch.manual_seed(1)
    vrt = small_vrt(use_checkpoint_attn=attn, use_checkpoint_ffn=ffn)
    model = small_vrt_spike(vrt)
    calls = []
    for part in (model.spike_encoder, model.vrt.spynet):
        part.register_forward_pre_hook(lambda part, _: calls.append(type(part).__name__))
    model(*clip).square().mean().backward()
    times = 2 if attn and ffn else 1
    assert sorted(calls) == times * ["SpikeEncoder3D"] + times * ["SpyNet"]


def test_it_says_what_it_recomputes(small_vrt: Callable[..., VRT]) -> None:
    text = PlainVRT(small_vrt(use_checkpoint_attn=True)).describe()
    assert text == "model: PlainVRT; checkpoints: DeformableAlignment, WindowAttention"
    text = PlainVRT(small_vrt()).describe()
    assert text.endswith("; checkpoints: none")


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
    settings = Settings.model_validate({"MODEL": model, "DATA": data})
    return build_model(settings, pretrained=pretrained)


def test_a_spike_model_and_the_ablation_share_the_backbone() -> None:
    spike, plain = build(), build(USE_SPIKE=False)
    assert isinstance(spike, VRTSpike)
    assert isinstance(plain, PlainVRT)
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
        {"ATTENTION": "sdpa", "USE_CHECKPOINT_FFN": True},
        SPIKE_TSA={"HEADS": 2},
        FUSE={"INIT": "random", "TIME_BIAS": True},
    )
    assert isinstance(model, VRTSpike)
    block = model.vrt.get_submodule("stage1.residual_group2.blocks.0")
    assert block.attn.attention == "sdpa"
    assert block.mlp.checkpoint
    assert not block.attn.checkpoint
    assert not block.checkpoint
    # Parts of older versions are there if asked for.
    assert not model.shuffled
    assert model.spike_attention[0].time is None
    assert model.fusion[0].time.correction.shape == (4, 5)
    assert model.fusion[0].direct is None
    assert model.fusion[0].proj.weight.any()


def test_settings_of_the_backbone_reach_it() -> None:
    model = build(
        {
            "DROP_PATH_RATE": 0.5,
            "MUL_ATTN_RATIO": 0.5,
            "MLP_RATIO": 1.5,
            "INDEP_RECONSTS": [8],
            "USE_CHECKPOINT_ATTN": True,
        },
        VRT_DEPTHS=[2] * 7 + [1],
        SPIKE_TSA={"HEADS": 2, "TIME_BIAS": True},
        FUSE={"HEADS": 4, "DIRECT": True},
        SPIKE_ORDER="shuffled",
    )
    assert isinstance(model, VRTSpike)
    assert model.shuffled
    assert model.bins == 4
    first, second = (model.vrt.get_submodule(f"stage1.residual_group{n}.blocks.0") for n in (1, 2))
    assert (first.attn.mutual, second.attn.mutual) == (True, False)
    assert first.mlp.fc11.out_features == 12
    last = [model.vrt.get_submodule(f"stage8.{n}.residual_group.blocks.0") for n in (3, 2)]
    # From 0 to the given rate over all 18 blocks.
    rates = [block.drop_path.rate for block in (first, second, *last)]
    assert rates == pytest.approx([0, 0.5 / 17, 0.5 * 16 / 17, 0.5 * 15 / 17])
    assert [block.attn.window for block in last] == [(2, 4, 4), (1, 4, 4)]
    assert first.attn.checkpoint
    assert not first.mlp.checkpoint
    for attention, fusion in zip(model.spike_attention, model.fusion, strict=True):
        # Differences of up to two frames in clips of three.
        assert attention.time.correction.shape == (2, 5)
        assert fusion.time is None
        assert fusion.direct.fc11.in_features == 16
        assert attention.checkpoint
        assert fusion.checkpoint
    # A network of spikes has two residual blocks a scale, and twice the channels in between.
    assert [len(blocks) for blocks in model.spike_encoder.scales] == [2] * 4
    assert model.fusion[0].mlp[0].out_features == 16


def test_pretrained_weights_are_loaded_where_asked_and_those_of_the_flow_alone_win(
    tmp_path: Path,
) -> None:
    source = build(USE_SPIKE=False)
    assert isinstance(source, PlainVRT)
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
