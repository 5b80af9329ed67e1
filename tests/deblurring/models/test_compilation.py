"""Compilation of blocks, with a higher limit of graphs than PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from shutil import which
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from vrtspike.deblurring.models.compilation import compile_modules, with_recompile_limit
from vrtspike.deblurring.models.ops.dispatch import Compute, Recompute
from vrtspike.deblurring.models.ops.window_attention.windows import PlanCache
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
from vrtspike.deblurring.models.vrt import VRT


class Compiler:
    """Keeps count of the graphs that it is given and of their runs, as they are."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph: GraphModule, _: object) -> Callable[..., Any]:
        self.graphs += 1

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return graph(*inputs)

        return run


@pytest.fixture(autouse=True)
def _without_graphs_of_other_tests() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def scale(x: Tensor, by: float) -> Tensor:
    return x * by


@pytest.mark.parametrize(("limit", "graphs"), [(3, 3), (12, 10)])
def test_a_function_has_so_many_graphs_and_no_more(limit: int, graphs: int) -> None:
    compiler, before = Compiler(), torch._dynamo.config.recompile_limit
    run = with_recompile_limit(torch.compile(scale, dynamic=False, backend=compiler), limit)
    for size in range(2, 12):
        assert torch.equal(run(torch.ones(size), by=2.0), torch.full((size,), 2.0))
    assert compiler.graphs == graphs
    assert torch._dynamo.config.recompile_limit == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recompute", "mutual", "backend"),
    [
        # Captured as for the real compiler and run as they are.
        ("none", True, "eager"),
        pytest.param(
            "auto",
            False,
            "inductor",
            marks=[
                pytest.mark.endurance,
                pytest.mark.skipif(which("g++") is None, reason="needs a C++ compiler"),
            ],
        ),
    ],
)
def test_compiled_blocks_with_checkpointing(
    recompute: Recompute, mutual: bool, backend: str
) -> None:
    def group() -> TMSAGroup:
        torch.manual_seed(0)
        return TMSAGroup(
            8,
            (2, 4, 4),
            2,
            1,
            mutual=mutual,
            mlp_ratio=2.0,
            compute=Compute(recompute=recompute),
            plans=PlanCache(),
        )

    linear = nn.Linear(8, 8)
    plain, compiled = group(), group()
    for module in (plain, compiled):
        module.blocks[0].checkpoint = True
    compile_modules(compiled.blocks, backend=backend)
    x = torch.rand(1, 3, 8, 8, 8)
    for module in (plain, compiled):
        module(x, linear).square().mean().backward()
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.endurance
@pytest.mark.slow
def test_every_block_runs_compiled(small_vrt: Callable[..., VRT]) -> None:
    # More kinds of block than PyTorch compiles unasked.
    vrt = small_vrt(depths=(4,) * 2 + (2,) * 7, drop_path_rate=0.2, use_checkpoint_ffn=True)
    blocks = [module for module in vrt.modules() if isinstance(module, TMSABlock)]
    compiler = Compiler()
    compile_modules(blocks, backend=compiler)
    with torch.no_grad():
        vrt(torch.rand(1, 3, 3, 32, 32))
    assert compiler.runs == len(blocks)
    assert 8 < compiler.graphs < len(blocks)
