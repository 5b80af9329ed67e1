"""Files of weights: what is read, refused and loaded."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from vrtspike.data.raw.spikes import count_steps
from vrtspike.io.images import read_rgb
from vrtspike.io.weights import floating_type, load_trained_weights, read_weights, write_half
from vrtspike.system.errors import DataError, RunError

FORMATS = [("w.pth", torch.save), ("w.safetensors", save_file)]


def test_averaged_weights_are_preferred(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    states = {"params": {"weight": torch.zeros(2)}, "params_ema": {"weight": torch.ones(2)}}
    for order in (("params", "params_ema"), ("params_ema", "params")):
        torch.save({name: states[name] for name in order}, path)
        assert torch.equal(read_weights(path)["weight"], torch.ones(2))
    for wrapper in (*states, "state_dict"):
        torch.save({wrapper: states["params"]}, path)
        assert torch.equal(read_weights(path)["weight"], torch.zeros(2))


@pytest.mark.parametrize(("name", "save"), FORMATS)
def test_the_prefix_of_a_parallel_wrapper_is_left_out(
    tmp_path: Path, name: str, save: Callable[..., None]
) -> None:
    tensors = {"module.conv.weight": torch.ones(2), "module_list.bias": torch.zeros(1)}
    save(tensors, tmp_path / name)
    assert read_weights(tmp_path / name).keys() == {"conv.weight", "module_list.bias"}


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
@pytest.mark.parametrize(("name", "save"), FORMATS)
def test_values_that_are_not_finite_are_refused_with_file_and_tensor(
    tmp_path: Path, name: str, save: Callable[..., None], value: float
) -> None:
    tensors = {"a.weight": torch.ones(2, 3), "b.bias": torch.ones(4), "count": torch.tensor(1)}
    tensors["b.bias"][1] = value
    save(tensors, tmp_path / name)
    with pytest.raises(RunError) as caught:
        read_weights(tmp_path / name)
    title, fault, advice = str(caught.value).splitlines()
    assert title == f"{tmp_path / name}: weights that are NaN or infinite (1):"
    assert fault == "  - b.bias: 1 of 4 values"
    assert "train again" in advice


def test_half_precision_is_half_as_large_and_keeps_integers_and_metadata(tmp_path: Path) -> None:
    state = {"a.weight": torch.randn(1000), "b.mean": torch.randn(9).double()}
    count = torch.tensor(2**40)
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    save_file({**state, "count": count}, whole, metadata={"fingerprint": "0123"})
    write_half(whole, half)
    result = read_weights(half)
    assert torch.equal(result.pop("count"), count)
    assert result.keys() == state.keys()
    for name, tensor in result.items():
        assert torch.equal(tensor, state[name].half())
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    (tmp_path / "other").touch()
    assert half.stat().st_mode == (tmp_path / "other").stat().st_mode
    with safe_open(half, "pt") as opened:
        assert opened.metadata() == {"fingerprint": "0123"}
    assert (floating_type(whole), floating_type(half)) == ("float32, float64", "float16")


def test_values_too_large_for_half_precision_are_refused_with_the_tensor(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    save_file({"a.weight": torch.full((3,), 65504.0), "b.bias": torch.tensor([1.0, -7e4])}, whole)
    with pytest.raises(RunError) as caught:
        write_half(whole, half)
    title, fault, _ = str(caught.value).splitlines()
    assert title == f"{whole}: weights too large for half precision (1):"
    assert fault == "  - b.bias: largest magnitude 70000, expected at most 65504"
    assert not half.exists()


DAMAGED = "not a whole {} file.*it is damaged or of another kind. Copy or fetch"
PLACEHOLDERS = {
    b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n": "git lfs pull",
    b"\n<!DOCTYPE HTML><p>Download anyway?": "a web page",
}


@pytest.mark.parametrize(("name", "save"), FORMATS)
def test_an_incomplete_file_of_weights_is_refused(
    tmp_path: Path, name: str, save: Callable[..., None]
) -> None:
    file = tmp_path / name
    with pytest.raises(RunError, match=f"{name}: no such checkpoint"):
        read_weights(file)
    save({"conv.weight": torch.ones(64, 8), "conv.bias": torch.zeros(64)}, file)
    whole = file.read_bytes()
    cuts = [whole[:length] for length in (0, 4, 20, len(whole) // 2, len(whole) - 1)]
    damaged = DAMAGED.format("safetensors" if save is save_file else "PyTorch")
    others = dict.fromkeys((*cuts, b"no weights at all", b"\x89PNG\r\n\x1a\n" * 20), damaged)
    for contents, message in (others | PLACEHOLDERS).items():
        file.write_bytes(contents)
        with pytest.raises(RunError, match=f"{name}: .*{message}"):
            read_weights(file)
    for contents, message in PLACEHOLDERS.items():
        file.write_bytes(contents)
        with pytest.raises(DataError, match=message):
            read_rgb(file)
        with pytest.raises(DataError, match=message):
            count_steps(file, 250, 400)
    file.unlink()
    file.mkdir()
    with pytest.raises(RunError, match=f"{name}: a folder, no file of weights"):
        read_weights(file)


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
def test_mismatched_weights_change_nothing(
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
        load_trained_weights(model, file)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)
    save_file(state, file)
    load_trained_weights(model, file)
    assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"epoch": 3}, "no state dictionary, but epoch; expected"),
        ({"params": {}, "o": argparse.Namespace()}, r"more than tensors \(argparse.Namespace\)"),
        ({"params": {}, "psnr": np.float64(3)}, r"more than tensors \(numpy\..*\.scalar\)"),
        (
            nn.DataParallel(nn.Conv2d(3, 4, 1)),
            r"more than tensors \(torch.nn.parallel.data_parallel.DataParallel\)",
        ),
    ],
)
def test_files_with_other_contents_are_reported(
    tmp_path: Path, contents: object, message: str
) -> None:
    torch.save(contents, tmp_path / "w.pth")
    with pytest.raises(RunError, match=f"w.pth: found {message}"):
        read_weights(tmp_path / "w.pth")
