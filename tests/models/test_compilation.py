"""Compilation of the blocks of VRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from vrtspike.config.loading import load_preset
from vrtspike.config.run_schema import TrainSettings
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.models import build_model
from vrtspike.models.stages import TMSABlock
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.models.windows import WindowPartition
from vrtspike.training.precision import Precision


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
    small_vrt_spike: Callable[..., VRTSpike],
) -> None:
    options = {"depths": (2,) + (1,) * 8, "indep_reconsts": (), "use_checkpoint_ffn": True}
    x = torch.rand(1, 3, 3, 16, 16)
    plain, compiled = (small_vrt_spike(0, **options) for _ in range(2))
    compiled.compile(mode="default")
    for model in (plain, compiled):
        model(x, None).square().mean().backward()
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_each_kind_of_block_is_one_graph(small_vrt_spike: Callable[..., VRTSpike]) -> None:
    # Every block has a rate of stochastic depth of its own; the first has none.
    options = {"depths": (4,) * 3 + (2,) * 6, "drop_path_rate": 0.2}
    model = small_vrt_spike(0, attention="sdpa", **options)
    blocks = [module for module in model.modules() if isinstance(module, TMSABlock)]
    kinds = set()

    def note(block: TMSABlock, inputs: tuple[torch.Tensor, WindowPartition, torch.Tensor]) -> None:
        x, windows, _ = inputs
        kinds.add(
            (x.shape, windows.window, windows.counts, block.attn.mutual, block.drop_path.drops)
        )

    hooks = [block.register_forward_pre_hook(note) for block in blocks]
    x = torch.rand(1, 3, 3, 32, 32)
    with torch.no_grad():
        model(x, None)
    for hook in hooks:
        hook.remove()
    compiler = Compiler()
    model.compile(backend=compiler, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            model(x, None)
    assert compiler.runs == 2 * len(blocks)
    # More than PyTorch compiles unasked.
    assert 8 < len(kinds) < len(blocks)
    assert compiler.graphs == len(kinds)


@pytest.mark.parametrize("precision", ["32", "bf16-mixed"])
def test_the_light_model_is_one_graph_for_each_size(repository: Path, precision: str) -> None:
    settings = load_preset(repository / "config/presets/light_demo.yaml")
    assert isinstance(settings, DeblurringSettings)
    model = build_model(settings)
    compiler = Compiler()
    model.compile(backend=compiler, fullgraph=True)
    arithmetic = Precision(TrainSettings(PRECISION=precision), torch.device("cpu"))
    forward_module = arithmetic.forward_module(model, half_precision_weights=True)
    for side in (32, 32, 64, 96):
        frames = torch.rand(1, 3, 3, side, side)
        voxels = torch.randn(1, 3, settings.DATA.NUM_VOXEL_BINS, side // 2, side // 2)
        with arithmetic.autocast():
            forward_module(frames, voxels).mean().backward()
    assert (compiler.graphs, compiler.runs) == (3, 4)
