"""Published checkpoints of VRT, checked and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.weights import (
    depths_of,
    load_spynet,
    load_vrt,
    published_state_dict,
)
from vrtspike.errors import RunError
from vrtspike.weights import read_weights

Build = Callable[..., VRT]


@pytest.mark.parametrize("wrapper", [None, "params", "params_ema", "state_dict"])
def test_pytorch_files_with_and_without_a_wrapper(
    small_vrt: Build, tmp_path: Path, wrapper: str | None
) -> None:
    state = published_state_dict(small_vrt())
    path = tmp_path / "weights.pth"
    torch.save(state if wrapper is None else {wrapper: state}, path)
    found = read_weights(path)
    assert found.keys() == state.keys()


def published_shapes(small: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the published code for a model of the widths c (stages 1-7) and d."""
    c, d, heads, groups = small["c"], small["d"], small["heads"], small["groups"]
    shapes: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *shape: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]

    def block(name: str, width: int, rows: int, tokens: int, mutual: bool) -> None:
        layer(f"{name}.norm1", width)
        shapes[f"{name}.attn.relative_position_bias_table"] = (rows, heads)
        shapes[f"{name}.attn.relative_position_index"] = (tokens, tokens)
        layer(f"{name}.attn.qkv_self", 3 * width, width)
        layer(f"{name}.attn.proj", width, 2 * width if mutual else width)
        if mutual:
            shapes[f"{name}.attn.position_bias"] = (1, tokens // 2, width)
            layer(f"{name}.attn.qkv_mut", 3 * width, width)
        layer(f"{name}.norm2", width)
        layer(f"{name}.mlp.fc11", 2 * width, width)
        layer(f"{name}.mlp.fc12", 2 * width, width)
        layer(f"{name}.mlp.fc2", width, 2 * width)

    for level, place in ((n, i) for n in range(6) for i in range(5)):
        widths = (8, 32, 64, 32, 16, 2)
        name = f"spynet.basic_module.{level}.basic_module.{2 * place}"
        layer(name, widths[place + 1], widths[place], 7, 7)
    shapes["spynet.mean"] = shapes["spynet.std"] = (1, 3, 1, 1)
    layer("conv_first", c, 27, 1, 3, 3)
    for stage, depth in enumerate((2, 1, 1, 1, 1, 1, 2), start=1):
        name = f"stage{stage}"
        if stage == 1:
            layer("stage1.reshape.1", c)
        else:
            width = 4 * c if stage < 5 else c // 4
            layer(f"{name}.reshape.1", width)
            layer(f"{name}.reshape.2", c, width)
        for group in (1, 2):
            # Three quarters of the blocks, rounded down, have mutual attention.
            for number in range(depth * 3 // 4 if group == 1 else depth - depth * 3 // 4):
                block(f"{name}.residual_group{group}.blocks.{number}", c, 3 * 7 * 7, 32, group == 1)
            layer(f"{name}.linear{group}", c, c)
        shapes[f"{name}.pa_deform.weight"] = (c, c, 3, 3)
        shapes[f"{name}.pa_deform.bias"] = (c,)
        layer(f"{name}.pa_deform.conv_offset.0", c, 2 * c + 2, 3, 3)
        layer(f"{name}.pa_deform.conv_offset.2", c, c, 3, 3)
        layer(f"{name}.pa_deform.conv_offset.4", c, c, 3, 3)
        layer(f"{name}.pa_deform.conv_offset.6", 27 * groups, c, 3, 3)
        layer(f"{name}.pa_fuse.fc11", 3 * c, 3 * c)
        layer(f"{name}.pa_fuse.fc12", 3 * c, 3 * c)
        layer(f"{name}.pa_fuse.fc2", c, 3 * c)
    layer("stage8.0.1", c)
    layer("stage8.0.2", d, c)
    for group, (depth, rows, tokens) in enumerate(((2, 3 * 7 * 7, 32), (1, 7 * 7, 16)), start=1):
        for number in range(depth):
            block(f"stage8.{group}.residual_group.blocks.{number}", d, rows, tokens, mutual=False)
        layer(f"stage8.{group}.linear", d, d)
    layer("norm", d)
    layer("conv_after_body", c, d)
    layer("conv_last", 3, c, 1, 3, 3)
    return shapes


def test_names_and_shapes_are_the_published_ones(small_vrt: Build) -> None:
    state = published_state_dict(small_vrt())
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    assert found == published_shapes({"c": 8, "d": 12, "heads": 2, "groups": 2})


def test_published_checkpoints_load_with_their_buffers(small_vrt: Build, tmp_path: Path) -> None:
    source, target = small_vrt(), small_vrt()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1)
    path = tmp_path / "weights.safetensors"
    save_file(published_state_dict(source), path)
    load_vrt(target, read_weights(path), str(path))
    for a, b in zip(source.parameters(), target.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_missing_and_an_unknown_entry_are_named(small_vrt: Build) -> None:
    vrt = small_vrt()
    state = published_state_dict(vrt)
    state["stage9.weight"] = state.pop("conv_last.bias")
    with pytest.raises(RunError) as error:
        load_vrt(vrt, state, "some file")
    assert "some file" in str(error.value)
    assert "conv_last.bias: missing" in str(error.value)
    assert "stage9.weight: not in this model" in str(error.value)


def test_other_depths_are_told(small_vrt: Build) -> None:
    state = published_state_dict(small_vrt())
    assert depths_of(state) == [2, 1, 1, 1, 1, 1, 2, 2, 1]
    deeper = small_vrt(depths=(2, 1, 1, 1, 1, 1, 3, 2, 1))
    with pytest.raises(RunError, match=r"checkpoint has \[2, 1, 1, 1, 1, 1, 2, 2, 1\]"):
        load_vrt(deeper, state, "some file")


def test_faults_that_are_not_listed_count_too(small_vrt: Build) -> None:
    vrt = small_vrt()
    with pytest.raises(RunError) as error:
        load_vrt(vrt, {}, "some file")
    total = len(vrt.state_dict()) + 1  # each entry, and the depths
    assert f"weights of another model ({total}):" in str(error.value)
    assert f"... and {total - 12} more" in str(error.value)


def test_weights_of_another_window_are_refused(small_vrt: Build) -> None:
    # Equal table sizes, (2 * 2 - 1)(2 * 2 - 1)(2 * 8 - 1) rows each, but another order of rows.
    wide = small_vrt(window_size=(2, 2, 8), mul_attn_ratio=0.0)
    tall = small_vrt(window_size=(2, 8, 2), mul_attn_ratio=0.0)
    with pytest.raises(RunError, match="another window"):
        load_vrt(tall, published_state_dict(wide), "some file")


@pytest.mark.parametrize("prefix", ["", "spynet."])
def test_flow_weights_alone(small_vrt: Build, prefix: str) -> None:
    vrt = small_vrt()
    state = {
        f"{prefix}{name}": torch.randn_like(tensor)
        for name, tensor in vrt.spynet.state_dict().items()
        if name not in ("mean", "std")
    }
    load_spynet(vrt, state, "some file")
    name = "basic_module.3.basic_module.8.weight"
    assert torch.equal(vrt.spynet.state_dict()[name], state[prefix + name])
    # Another mean, where the file has one, belongs to these weights.
    other = {**state, f"{prefix}mean": torch.full((1, 3, 1, 1), 0.25)}
    load_spynet(vrt, other, "some file")
    assert torch.equal(vrt.spynet.mean, other[f"{prefix}mean"])
    del state[prefix + name]
    with pytest.raises(RunError, match=name):
        load_spynet(vrt, state, "some file")
