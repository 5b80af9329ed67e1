"""Reading, checking and loading checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.weights import (
    depths_of,
    load_spynet,
    load_trained,
    load_vrt,
    published_state_dict,
    read_weights,
)
from vrtspike.errors import RunError

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


def test_averaged_weights_are_preferred(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    states = {"params": {"weight": torch.zeros(2)}, "params_ema": {"weight": torch.ones(2)}}
    for order in (("params", "params_ema"), ("params_ema", "params")):
        torch.save({name: states[name] for name in order}, path)
        assert torch.equal(read_weights(path)["weight"], torch.ones(2))


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


@pytest.mark.parametrize(("name", "save"), [("w.pth", torch.save), ("w.safetensors", save_file)])
def test_the_prefix_of_a_parallel_wrapper_is_left_out(
    tmp_path: Path, name: str, save: Callable[..., None]
) -> None:
    tensors = {"module.conv.weight": torch.ones(2), "module_list.bias": torch.zeros(1)}
    save(tensors, tmp_path / name)
    assert read_weights(tmp_path / name).keys() == {"conv.weight", "module_list.bias"}


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


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such checkpoint"):
        read_weights(tmp_path / "absent.pth")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(RunError, match=r"folder.safetensors: a folder, no file of weights"):
        read_weights(tmp_path / "folder.safetensors")


@pytest.mark.parametrize(
    ("name", "save", "kind"),
    [("w.pth", torch.save, "PyTorch"), ("w.safetensors", save_file, "safetensors")],
)
def test_damaged_files_and_those_of_another_kind_are_told(
    tmp_path: Path, name: str, save: Callable[..., None], kind: str
) -> None:
    file = tmp_path / name
    save({"conv.weight": torch.ones(64, 8), "conv.bias": torch.zeros(64)}, file)
    whole = file.read_bytes()
    cuts = [whole[:length] for length in (0, 4, 20, len(whole) // 2, len(whole) - 1)]
    for contents in (*cuts, b"no weights at all", b"\x89PNG\r\n\x1a\n" * 20):
        file.write_bytes(contents)
        message = (
            rf"{name}: not a whole {kind} file.*it is damaged or of another kind. Copy or fetch"
        )
        with pytest.raises(RunError, match=message):
            read_weights(file)


def test_any_text_is_told_to_be_no_pytorch_file(tmp_path: Path) -> None:
    """The reader of PyTorch's older files takes it for instructions and fails in many ways."""
    random = np.random.default_rng(0)
    file = tmp_path / "w.pth"
    for _ in range(500):
        file.write_bytes(random.integers(32, 127, random.integers(1, 60), np.uint8).tobytes())
        with pytest.raises(RunError, match=r"w\.pth: (not a whole PyTorch file|found no state)"):
            read_weights(file)


def test_a_flipped_bit_of_a_header_is_told_whatever_it_says_now(tmp_path: Path) -> None:
    """Nearly every flip makes it unreadable; the others change a name, a kind or the metadata."""
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    file = tmp_path / "weights.safetensors"
    save_file(model.state_dict(), file, metadata={"fingerprint": "0123456789ab"})
    whole = file.read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    metadata = range(whole.index(b"{", 9), whole.index(b"}"))
    told = 0
    for place in range(length):
        for bit in range(8):
            contents = bytearray(whole)
            contents[place] ^= 1 << bit
            file.write_bytes(contents)
            try:
                load_trained(model, file)
            except RunError:
                told += 1
            else:
                # The fingerprint, or a space after the header's end.
                assert place in metadata or whole[place] == ord(" "), (place, bit)
    assert told > 7 * length


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"0.bias": None}, "0.bias: missing"),
        ({"2.bias": torch.zeros(4)}, "2.bias: not in this model"),
        ({"0.bias": torch.zeros(5)}, r"0.bias: shape \(5,\), expected \(4,\)"),
        (
            {"0.bias": torch.zeros(4, dtype=torch.int32)},
            "0.bias: numbers of torch.int32, expected torch.float32",
        ),
    ],
)
def test_weights_that_do_not_fit_are_loaded_nowhere(
    tmp_path: Path, change: dict[str, torch.Tensor | None], fault: str
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = {name: tensor + 1 for name, tensor in before.items()}
    changed = {name: tensor for name, tensor in (state | change).items() if tensor is not None}
    file = tmp_path / "weights.safetensors"
    save_file(changed, file)
    with pytest.raises(
        RunError, match=rf"weights.safetensors: weights of another model.*\n.*{fault}"
    ):
        load_trained(model, file)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    save_file(state, file)
    load_trained(model, file)
    assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)


def test_half_precision_is_loaded_into_whole(tmp_path: Path) -> None:
    model = nn.Conv2d(3, 4, 1)
    state = {name: tensor.bfloat16() for name, tensor in model.state_dict().items()}
    save_file(state, tmp_path / "weights.safetensors")
    load_trained(model, tmp_path / "weights.safetensors")
    assert torch.equal(model.weight, state["weight"].float())


def test_a_file_without_a_state_dictionary_is_told(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "other.pth")
    with pytest.raises(RunError, match="found no state dictionary"):
        read_weights(tmp_path / "other.pth")
