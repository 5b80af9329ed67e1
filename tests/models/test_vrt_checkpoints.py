"""Published checkpoints of VRT, checked and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.models.checks import published_state_dict
from vrtspike.io.weights import read_weights
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_checkpoints import load_spynet, load_vrt
from vrtspike.system.errors import RunError

Build = Callable[..., VRT]


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


def test_missing_and_unknown_entries_are_named_and_counted(
    small_vrt: Build,
) -> None:
    vrt = small_vrt()
    state = published_state_dict(vrt)
    state["stage9.weight"] = state.pop("conv_last.bias")
    with pytest.raises(RunError) as error:
        load_vrt(vrt, state, "some file")
    for part in ("some file", "conv_last.bias: missing", "stage9.weight: not in this model"):
        assert part in str(error.value)
    with pytest.raises(RunError) as error:
        load_vrt(vrt, {}, "some file")
    total = len(vrt.state_dict())
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
