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


def test_settings_reach_the_model() -> None:
    config = settings(
        {"ATTENTION": "sdpa", "USE_CHECKPOINT_FFN": True},
        SPIKE_TSA={"HEADS": 2, "MAX_BATCH_TOKENS": 7},
        FUSE={"INIT": "random", "ADAPTIVE_CHUNK": False, "CHUNK_SIZE": 9, "TIME_BIAS": True},
    )
    model = build(config)
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
    assert model.spike_attention[0].chunks.max_tokens == 7
    assert model.fusion[0].chunks.size == 9
    assert not model.fusion[0].chunks.adaptive
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
        SPIKE_TSA={"HEADS": 2, "MAX_BATCH_TOKENS": 7, "TIME_BIAS": True},
        FUSE={"HEADS": 4, "MAX_BATCH_TOKENS": 9, "DIRECT": True},
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
        assert (attention.chunks.max_tokens, fusion.chunks.max_tokens) == (7, 9)
        assert attention.checkpoint
        assert fusion.checkpoint
    # A network of spikes has two residual blocks a scale, and twice the channels in between.
    assert [len(blocks) for blocks in model.spike_encoder.scales] == [2] * 4
    assert model.fusion[0].mlp[0].out_features == 16


def test_pretrained_weights_are_loaded_where_asked_and_those_of_the_flow_alone_win(
    tmp_path: Path,
) -> None:
    source = build(settings(USE_SPIKE=False))
    assert isinstance(source, PlainVRT)
    whole, flow = tmp_path / "vrt.safetensors", tmp_path / "spynet.safetensors"
    save_file(published_state_dict(source.vrt), whole)
    state = {name: torch.randn_like(t) for name, t in source.vrt.spynet.state_dict().items()}
    save_file(state, flow)
    first = source.vrt.conv_first.weight
    config = settings({"PRETRAINED": str(whole), "SPYNET": str(flow)})
    for pretrained in (True, False):
        loaded = build(config, pretrained=pretrained)
        assert isinstance(loaded, VRTSpike)
        assert torch.equal(loaded.vrt.conv_first.weight, first) == pretrained
        for name, tensor in loaded.vrt.spynet.state_dict().items():
            if name not in ("mean", "std"):
                assert torch.equal(tensor, state[name]) == pretrained, name
