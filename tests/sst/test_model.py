"""Transformer for sea surface temperatures: land, positions, recursion and sizes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.replicas import Case, assert_equal_to_one_process, train_by_two
from vrtspike.sst.model import RecursiveAttentionTransformer
from vrtspike.system.errors import ConfigError

ROWS, COLUMNS = 7, 10
"""No multiples of the patches' 3 cells."""
LATITUDES = np.linspace(30, -30, ROWS)
LONGITUDES = np.linspace(150, 240, COLUMNS)


def small(**options: Any) -> RecursiveAttentionTransformer:
    defaults = {
        "d_model": 16,
        "num_heads": 4,
        "num_layers": 2,
        "dim_feedforward": 24,
        "patch_size": 3,
    }
    torch.manual_seed(1)
    return RecursiveAttentionTransformer(COLUMNS, ROWS, 2, **defaults | {"dropout": 0.0} | options)


def trained(**options: Any) -> RecursiveAttentionTransformer:
    """A model whose head is no longer zero."""
    model = small(**options)
    torch.nn.init.normal_(model.head.weight, std=0.3)
    torch.nn.init.normal_(model.head.bias, std=0.3)
    return model


def coast() -> np.ndarray:
    """Land: the whole patch in the middle of the top, and a single cell."""
    sea = np.ones((ROWS, COLUMNS), bool)
    sea[0:3, 3:6] = False
    sea[5, 1] = False
    return sea


def past(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 2, ROWS, COLUMNS, generator=torch.Generator().manual_seed(3))


MONTH = torch.tensor([0, 7])


def test_land_is_neither_read_nor_written():
    model, fields = small(lead=2), past()
    assert len(model.tokens) == 3 * 4
    # An untrained model is persistence.
    assert torch.equal(model(fields, MONTH), fields[:, -1:].expand(-1, 2, -1, -1))
    model = trained(lead=2)
    sea = torch.from_numpy(coast())
    model.on_grid(coast(), LATITUDES, LONGITUDES)
    # Of three rows of four patches the second of the first row is land: no token.
    assert model.tokens.tolist() == [0, 2, 3, *range(4, 12)]
    output = model(fields, MONTH)
    assert (output[..., ~sea] == 0).all()
    assert (output[..., sea] != 0).all()
    fields[..., ~sea] = float("nan")
    assert torch.equal(model(fields, MONTH), output)


def test_every_cell_of_the_sea_is_read_and_has_its_own_change():
    model, fields = trained(), past(1).requires_grad_()
    model.on_grid(coast(), LATITUDES, LONGITUDES)
    month = torch.tensor([4])
    (model(fields, month) - fields[:, -1:].detach()).square().sum().backward()
    assert fields.grad is not None
    sea = torch.from_numpy(coast())
    assert (fields.grad[..., sea] != 0).all()
    assert (fields.grad[..., ~sea] == 0).all()
    changes = model(fields, month) - fields[:, -1:]
    assert len(changes[0, 0][sea].unique()) == sea.sum()


def test_cells_keep_their_places():
    """A head that copies a patch's own cells gives the field back, wherever patches end."""
    model = small(d_model=36, num_layers=1)
    fields = past()
    with torch.no_grad():
        for layer in (model.place, model.season):
            layer.weight.zero_()
            layer.bias.zero_()
        block = model.blocks[0]
        assert isinstance(block, torch.nn.TransformerEncoderLayer)
        for layer in (block.self_attn.out_proj, block.linear2):
            layer.weight.zero_()
            layer.bias.zero_()
        # The first month of a patch is its first nine numbers.
        model.content.weight.zero_()
        model.content.bias.zero_()
        model.content.weight[:9, :9] = torch.eye(9)
        model.head.weight[:, :9] = torch.eye(9)
    torch.testing.assert_close(model(fields, MONTH), fields[:, -1:] + fields[:, :1])


def test_the_blocks_are_applied_as_often_as_asked():
    model = trained(recursion_depth=3)
    calls = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, *_: calls.append(module))
    fields = past()
    output = model(fields, MONTH)
    assert calls == [*model.blocks] * 3
    same = trained(recursion_depth=1)
    assert sum(p.numel() for p in same.parameters()) == sum(p.numel() for p in model.parameters())
    assert not torch.allclose(same(fields, MONTH), output)


def test_a_forecast_depends_on_place_and_season():
    model, fields, sea = trained(), past(), np.ones((ROWS, COLUMNS))

    def forecast(north: float = 0, east: float = 0, months: int = 0) -> torch.Tensor:
        model.on_grid(sea, LATITUDES + north, LONGITUDES + east)
        return model(fields, MONTH + months)

    output = forecast()
    for another in (forecast(months=1), forecast(north=10), forecast(east=180)):
        assert not torch.allclose(another, output, atol=1e-2)
    # A year and a turn around the globe change nothing.
    for same in (forecast(months=12), forecast(east=360), forecast(east=-360)):
        torch.testing.assert_close(same, output, atol=1e-4, rtol=0)


def test_no_two_places_of_the_globe_are_alike():
    model = RecursiveAttentionTransformer(36, 18, 1, d_model=8, num_heads=1, patch_size=2)
    places = model.places
    distances = torch.cdist(places, places) + 10 * torch.eye(len(places))
    assert distances.min() > 0.05


def test_half_precision_is_close():
    model, fields = trained(), past()
    with torch.no_grad():
        exact = model(fields, MONTH)
        with torch.autocast("cpu", torch.bfloat16):
            half = model(fields, MONTH)
    assert half.dtype == torch.float32
    assert (half - exact).abs().max() < 0.1 * exact.abs().max()
    assert (half != exact).any()


def test_weights_do_not_depend_on_the_region():
    one, other = trained(), small()
    one.on_grid(coast(), LATITUDES, LONGITUDES)
    other.on_grid(coast(), LATITUDES, LONGITUDES)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(past(), MONTH), other(past(), MONTH))
    assert not {"sea", "tokens", "places"} & set(one.state_dict())


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="recursion_depth\n  Input should be a valid integer"):
        small(recursion_depth=1.5)


def test_another_grid_than_the_models_is_refused():
    with pytest.raises(ConfigError, match=r"7 rows and 9 columns.*give it height=7, width=9"):
        small().on_grid(np.ones((ROWS, 9)), LATITUDES, LONGITUDES)


def test_two_processes_learn_the_same_as_one(tmp_path: Path):
    cases: dict[str, Case] = {"forecast": (partial(trained, lead=2), (past(), MONTH))}
    train_by_two(cases, tmp_path)
    assert_equal_to_one_process("forecast", cases["forecast"], tmp_path)
