from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vrtspike.host_draws import DrawTable, drawing_from

CPU = torch.device("cpu")


class Chance(nn.Module):
    """Multiplies each sample by 0 or 2."""

    draw_table: DrawTable | None = None

    def draw(self, samples: int) -> torch.Tensor:
        return 2.0 * (torch.rand(samples) < 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.draw_table is None:
            return x * self.draw(len(x))
        return x * self.draw_table.place(self.draw, len(x))


@pytest.fixture
def model() -> nn.Module:
    """Two layers, the first of which is called twice, with the second between."""
    first, second = Chance(), Chance()
    return nn.Sequential(first, second, first)


def test_a_recorded_pass_reads_what_a_pass_would_have_drawn(model):
    x, table = torch.arange(1.0, 9.0), DrawTable(CPU)
    places: list[torch.Tensor] = []
    with drawing_from(table, model):
        place = table.place
        table.place = lambda draw, samples: places.append(place(draw, samples)) or places[-1]
        model(x)
    for seed in range(5):
        torch.manual_seed(seed)
        expected = model(x)
        after = torch.rand(1)
        torch.manual_seed(seed)
        table.redraw()
        assert torch.equal(x * places[0] * places[1] * places[2], expected)
        assert torch.equal(torch.rand(1), after)
    assert all(layer.draw_table is None for layer in model)


def test_layers_decide_themselves_again_after_a_failure(model):
    with pytest.raises(ZeroDivisionError), drawing_from(DrawTable(CPU), model):
        raise ZeroDivisionError
    assert all(layer.draw_table is None for layer in model)


def test_a_decision_that_backward_would_take_again_is_refused():
    layer, x = Chance(), torch.ones(2, requires_grad=True)
    # The loss needs a factor, so that the layer has something to compute again.
    with drawing_from(DrawTable(CPU), layer):
        loss = checkpoint(lambda x: layer(x).square(), x, use_reentrant=False).sum()
        with pytest.raises(RuntimeError, match="inside of what backward computes again"):
            loss.backward()


def test_a_full_table_is_an_error(model):
    with drawing_from(DrawTable(CPU, capacity=15), model):
        with pytest.raises(RuntimeError, match="more than 15"):
            model(torch.ones(8))
        model[0](torch.ones(7))


def test_a_pass_without_decisions_draws_nothing():
    before = torch.get_rng_state()
    DrawTable(CPU).redraw()
    assert torch.equal(torch.get_rng_state(), before)
