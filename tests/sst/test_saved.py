from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vrtspike.errors import RunError
from vrtspike.sst.model import RecursiveAttentionTransformer
from vrtspike.sst.saved import place_on_grid, read_model, save_model

GRID = {
    "sea": np.array([[True, True, False], [True, False, True]]),
    "latitudes": np.array([3.0, 1.0]),
    "longitudes": np.array([179.0, 181.0, 183.0]),
}
PARAMETERS: dict[str, Any] = {
    **{"width": 3, "height": 2, "seq_len": 2, "d_model": 8, "num_heads": 2, "num_layers": 1},
    **{"dim_feedforward": 8, "patch_size": 1},
}


@pytest.fixture
def model() -> RecursiveAttentionTransformer:
    made = RecursiveAttentionTransformer(**PARAMETERS)
    torch.nn.init.normal_(made.head.weight)
    place_on_grid(made, *GRID.values())
    return made.eval()


def test_a_saved_model_forecasts_the_same(tmp_path, model):
    path = tmp_path / "deep" / "a.pkl"
    save_model(path, model, {"facts": {"model_params": PARAMETERS, "title": "t"}, **GRID})
    saved = read_model(path)
    assert saved.facts["title"] == "t"
    again = saved.build(RecursiveAttentionTransformer)
    assert not again.training
    past, month = torch.randn(2, 2, 2, 3), torch.tensor([3, 4])
    assert torch.equal(again(past, month), model(past, month))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_layers": 2}, "blocks.1.norm_attention.weight: missing"),
        ({"dim_feedforward": 12}, "blocks.0.layer.0.weight: (8, 8), not (12, 8)"),
    ],
)
def test_weights_of_another_model_are_refused_as_a_whole(tmp_path, model, change, words):
    path = tmp_path / "a.pkl"
    save_model(path, model, {"facts": {"model_params": PARAMETERS}, **GRID})
    other = RecursiveAttentionTransformer(**PARAMETERS | change)
    before = {name: values.clone() for name, values in other.state_dict().items()}
    with pytest.raises(RunError, match="weights of another model") as caught:
        read_model(path).load_into(other)
    assert words in str(caught.value)
    assert all(torch.equal(before[name], values) for name, values in other.state_dict().items())


def test_what_is_no_saved_model_is_refused(tmp_path, model):
    path = tmp_path / "a.pkl"
    with pytest.raises(RunError, match="no such file; expected a model"):
        read_model(path)
    path.write_bytes(b"nothing")
    with pytest.raises(RunError, match="no model that a trainer saved"):
        read_model(path)
    torch.save(model.state_dict(), path)
    with pytest.raises(RunError, match="no model that a trainer saved"):
        read_model(path)


def test_code_in_a_file_is_not_run(tmp_path, model):
    class Harm:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "harm",)

    path = tmp_path / "a.pkl"
    save_model(path, model, {"facts": {"model_params": PARAMETERS, "title": Harm()}, **GRID})
    with pytest.raises(RunError, match="no model that a trainer saved"):
        read_model(path)
    assert not (tmp_path / "harm").exists()


def test_a_model_without_places_is_left_alone():
    place_on_grid(torch.nn.Linear(1, 1), *GRID.values())
