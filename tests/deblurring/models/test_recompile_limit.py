"""More graphs of one function than PyTorch compiles unasked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from vrtspike.deblurring.models.recompile_limit import with_recompile_limit


class Compiler:
    """Keeps count of the graphs that it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: GraphModule, _: object) -> GraphModule:
        self.graphs += 1
        return graph


@pytest.fixture(autouse=True)
def _without_graphs_of_other_tests():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def scale(x: Tensor, by: float) -> Tensor:
    return x * by


def compiled(limit: int, compiler: Compiler) -> Callable[..., Any]:
    return with_recompile_limit(torch.compile(scale, dynamic=False, backend=compiler), limit)


@pytest.mark.parametrize(("limit", "graphs"), [(3, 3), (12, 10)])
def test_a_function_has_so_many_graphs_and_no_more(limit, graphs) -> None:
    compiler = Compiler()
    run = compiled(limit, compiler)
    for size in range(2, 12):
        assert torch.equal(run(torch.ones(size), by=2.0), torch.full((size,), 2.0))
    assert compiler.graphs == graphs


def test_a_graph_is_made_once() -> None:
    compiler = Compiler()
    run = compiled(12, compiler)
    for _ in range(3):
        run(torch.ones(4), 2.0)
    assert compiler.graphs == 1


def test_the_setting_is_left_as_it_was() -> None:
    before = torch._dynamo.config.recompile_limit
    inside = []

    def look() -> None:
        inside.append(torch._dynamo.config.recompile_limit)
        raise KeyError

    with pytest.raises(KeyError):
        with_recompile_limit(look, before + 5)()
    assert inside == [before + 5]
    assert torch._dynamo.config.recompile_limit == before


def test_it_becomes_a_part_of_a_larger_graph() -> None:
    inner, outer = Compiler(), Compiler()
    run = compiled(12, inner)
    whole = torch.compile(lambda x: run(x, 3.0) + 1, backend=outer, fullgraph=True)
    before = torch._dynamo.config.recompile_limit
    assert torch.equal(whole(torch.ones(2)), torch.full((2,), 4.0))
    assert torch._dynamo.config.recompile_limit == before
    assert (inner.graphs, outer.graphs) == (0, 1)
