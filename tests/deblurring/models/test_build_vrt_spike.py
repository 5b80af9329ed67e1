"""From the configuration to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from vrtspike.deblurring.models import PlainVRT, VRTSpike, build_model
from vrtspike.deblurring.models.weights import published_state_dict
from vrtspike.deblurring.settings.model import ModelSettings
from vrtspike.errors import RunError


def settings(vrt: dict[str, Any] | None = None, **keys: Any) -> ModelSettings:
    small = {
        "EMBED_DIMS": [8] * 7 + [12] * 4,
        "NUM_HEADS": 2,
        "DEFORMABLE_GROUPS": 2,
        "USE_CHECKPOINT_ATTN": False,
        "USE_CHECKPOINT_FFN": False,
    }
    return ModelSettings.model_validate(
        {
            "VRT_DEPTHS": [1] * 8,
            "WINDOW_SIZE": (2, 4, 4),
            "VRT": {**small, **(vrt or {})},
            **keys,
        }
    )


def test_a_rate_that_drops_every_branch_is_refused() -> None:
    with pytest.raises(ValueError, match="less than 1"):
        settings({"DROP_PATH_RATE": 1.0})


def build(config: ModelSettings, **keys: Any) -> torch.nn.Module:
    return build_model(config, bins=4, clip_len=3, crop_size=16, **keys)


def test_a_spike_model_and_the_ablation_share_the_backbone() -> None:
    spike, plain = build(settings()), build(settings(USE_SPIKE=False))
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


def test_a_list_of_eight_depths_gives_four_groups() -> None:
    model = build(settings())
    assert isinstance(model, VRTSpike)
    assert len(model.vrt.stage8) == 1 + 4


def test_settings_reach_the_model() -> None:
    config = settings(
        {"ATTENTION": "explicit", "RECOMPUTE": "none", "USE_CHECKPOINT_FFN": True},
        SPIKE_TSA={"HEADS": 2, "MAX_BATCH_TOKENS": 7},
        FUSE={"INIT": "random", "ADAPTIVE_CHUNK": False, "CHUNK_SHAPE": "wide"},
    )
    model = build(config)
    assert isinstance(model, VRTSpike)
    block = model.vrt.get_submodule("stage1.residual_group2.blocks.0")
    assert block.options.attention == "explicit"
    assert block.options.recompute == "none"
    assert block.options.checkpoint_ffn
    assert not block.options.checkpoint_attn
    assert model.spike_attention[0].implementation == "explicit"
    assert model.fusion[0].implementation == "explicit"
    assert model.spike_attention[0].time.correction.shape == (2, 5)
    assert model.spike_attention[0].chunks.max_tokens == 7
    assert model.fusion[0].chunks.tile() == (32, 128)
    assert model.fusion[0].proj.weight.any()


def test_settings_of_the_backbone_reach_it() -> None:
    config = settings(
        {
            "DROP_PATH_RATE": 0.5,
            "MUL_ATTN_RATIO": 0.5,
            "MLP_RATIO": 1.5,
            "INDEP_RECONSTS": [8],
            "USE_CHECKPOINT_ATTN": True,
        },
        VRT_DEPTHS=[2] * 7 + [1],
        SPIKE_TSA={"HEADS": 2, "MAX_BATCH_TOKENS": 7},
        FUSE={"HEADS": 4, "MAX_BATCH_TOKENS": 9},
        SPIKE_ORDER="shuffled",
    )
    model = build(config)
    assert isinstance(model, VRTSpike)
    assert model.shuffled
    assert model.bins == 4
    first, second = (model.vrt.get_submodule(f"stage1.residual_group{n}.blocks.0") for n in (1, 2))
    assert (first.attn.mutual, second.attn.mutual) == (True, False)
    assert first.mlp.fc11.out_features == 12
    last = [model.vrt.get_submodule(f"stage8.{n}.residual_group.blocks.0") for n in (3, 2)]
    assert model.vrt.get_submodule("stage8.4.residual_group.blocks.0").drop_path.rate == 0.5
    assert [block.attn.window for block in last] == [(2, 4, 4), (1, 4, 4)]
    assert first.options.checkpoint_attn
    assert not first.options.checkpoint_ffn
    for attention, fusion in zip(model.spike_attention, model.fusion, strict=True):
        # Differences of up to two frames in clips of three.
        assert attention.time.correction.shape == (2, 5)
        assert fusion.time.correction.shape == (4, 5)
        assert (attention.chunks.max_tokens, fusion.chunks.max_tokens) == (7, 9)
        assert attention.checkpoint
        assert fusion.checkpoint
    # A network of spikes has two residual blocks a scale, and twice the channels in between.
    assert [len(blocks) for blocks in model.spike_encoder.scales] == [2] * 4
    assert model.fusion[0].mlp[0].out_features == 16


def test_weights_of_the_flow_alone_win(tmp_path: Path) -> None:
    source = build(settings(USE_SPIKE=False))
    assert isinstance(source, PlainVRT)
    whole, flow = tmp_path / "vrt.safetensors", tmp_path / "spynet.safetensors"
    save_file(published_state_dict(source.vrt), whole)
    state = {name: torch.randn_like(t) for name, t in source.vrt.spynet.state_dict().items()}
    save_file(state, flow)
    loaded = build(settings({"PRETRAINED": str(whole), "SPYNET": str(flow)}))
    assert isinstance(loaded, VRTSpike)
    for name, tensor in loaded.vrt.spynet.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert torch.equal(loaded.vrt.conv_first.weight, source.vrt.conv_first.weight)


def test_pretrained_weights_are_loaded_where_asked(tmp_path: Path) -> None:
    source = build(settings(USE_SPIKE=False))
    assert isinstance(source, PlainVRT)
    path = tmp_path / "vrt.safetensors"
    save_file(published_state_dict(source.vrt), path)
    config = settings({"PRETRAINED": str(path)})
    loaded = build(config)
    assert isinstance(loaded, VRTSpike)
    assert torch.equal(loaded.vrt.conv_first.weight, source.vrt.conv_first.weight)
    fresh = build(config, pretrained=False)
    assert isinstance(fresh, VRTSpike)
    assert not torch.equal(fresh.vrt.conv_first.weight, source.vrt.conv_first.weight)


@pytest.mark.parametrize("key", ["PRETRAINED", "SPYNET"])
@pytest.mark.parametrize("name", ["vrt.safetensors", "vrt.pth"])
def test_damaged_pretrained_weights_are_told(tmp_path: Path, key: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"half of a download")
    with pytest.raises(RunError, match=rf"{name}: not a whole .* Copy or fetch it again"):
        build(settings({key: str(tmp_path / name)}))


def test_an_untrained_network_returns_its_input() -> None:
    blur, voxels = torch.rand(1, 3, 3, 16, 16), torch.randn(1, 3, 4, 16, 16)
    for model in (build(settings()), build(settings(USE_SPIKE=False))):
        assert torch.equal(model(blur, voxels), blur)
        # Its first step already moves it: the last layer has a gradient.
        model(blur, voxels).square().mean().backward()
        assert model.get_submodule("vrt.conv_last").get_parameter("weight").grad.any()


@pytest.mark.parametrize("frames", [1, 4])
def test_other_clips_than_the_trained_ones(frames: int) -> None:
    model = build(settings())
    blur = torch.rand(2, frames, 3, 20, 12)
    assert model(blur, torch.randn(2, frames, 4, 20, 12)).shape == blur.shape
