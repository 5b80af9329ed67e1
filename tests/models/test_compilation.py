"""Compilation of the blocks of VRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from shutil import which
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from vrtspike.models.tmsa import TMSABlock
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.settings.model import ModelSettings


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


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.skipif(which("g++") is None, reason="needs a C++ compiler")
def test_a_compiled_model_has_the_gradients_of_the_plain_one(
    small_vrt: Callable[..., VRT],
) -> None:
    options = {"depths": (2,) + (1,) * 8, "indep_reconsts": (), "use_checkpoint_ffn": True}
    x = torch.rand(1, 3, 3, 16, 16)
    plain, compiled = (VRTSpike(small_vrt(**options), ModelSettings(), bins=0) for _ in range(2))
    compiled.compile(mode="default")
    for model in (plain, compiled):
        model(x, None).square().mean().backward()
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.endurance
@pytest.mark.slow
def test_every_block_runs_compiled(small_vrt: Callable[..., VRT]) -> None:
    # More kinds of block than PyTorch compiles unasked.
    options = {"depths": (2,) * 2 + (1,) * 7, "drop_path_rate": 0.2, "use_checkpoint_ffn": True}
    model = VRTSpike(small_vrt(attention="sdpa", **options), ModelSettings(), bins=0)
    blocks = [module for module in model.modules() if isinstance(module, TMSABlock)]
    compiler = Compiler()
    model.compile(backend=compiler)
    with torch.no_grad():
        model(torch.rand(1, 3, 3, 32, 32), None)
    assert compiler.runs >= len(blocks)
    assert 8 < compiler.graphs
