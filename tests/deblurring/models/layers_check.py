"""Compares layers whose operations run by kernels with the reference; in Triton's interpreter.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.compilation import compile_modules
from vrtspike.deblurring.models.ops.comparison import differences, largest
from vrtspike.deblurring.models.ops.dispatch import KERNELS, Compute
from vrtspike.deblurring.models.ops.window_attention.windows import PlanCache, Size3
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA, TemporalCrossAttn
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup

HALF = torch.float16
TOLERANCE = 5e-3
CHANNELS = 16
# Of two blocks, two branches and two samples.
KEEP = torch.tensor([[[1.5, 0.0], [0.0, 1.25]], [[0.0, 1.25], [1.5, 1.5]]])


def compute_by(module: nn.Module, compute: Compute) -> None:
    for part in module.modules():
        if hasattr(part, "compute"):
            part.compute = compute


def randomise(module: nn.Module) -> None:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


class Blocks(nn.Module):
    """Two blocks, the second with shifted windows, a linear layer and a residual."""

    def __init__(self, *, mutual: bool) -> None:
        super().__init__()
        arguments = {"mutual": mutual, "mlp_ratio": 2.0, "compute": KERNELS}
        self.group = TMSAGroup(CHANNELS, (2, 4, 4), 2, 2, plans=PlanCache(), **arguments)
        self.linear = nn.Linear(CHANNELS, CHANNELS)
        randomise(self)

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        return self.group(x, self.linear, keep)


def check_blocks(
    size: Size3,
    *,
    mutual: bool = True,
    drops: bool = True,
    again: bool = False,
    compiled: bool = False,
) -> None:
    blocks = Blocks(mutual=mutual)
    for block in blocks.group.blocks:
        assert isinstance(block, TMSABlock)
        block.checkpoint = again

    def run(compute: Compute, x: Tensor) -> Tensor:
        compute_by(blocks, compute)
        for block in blocks.group.blocks:
            block._compiled_call_impl = None
        if compiled and compute is KERNELS:
            compile_modules(blocks.group.blocks, backend="eager")
        return blocks(x, KEEP if drops else None)

    x = torch.randn(2, *size, CHANNELS)
    found = largest(differences(run, [x], HALF, layers=[blocks]))
    print(f"blocks {size} {mutual=} {drops=} {again=} {compiled=}: {found:.1e}")
    assert found < TOLERANCE


def check_parameters_of_half_precision() -> None:
    blocks, x = Blocks(mutual=True), torch.randn(2, 3, 4, 4, CHANNELS)
    expected = torch.autograd.grad(blocks(x, KEEP).sum(), list(blocks.parameters()))
    found = torch.autograd.grad(blocks.half()(x.half(), KEEP).sum(), list(blocks.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == HALF
        assert (ours - theirs).norm() < 2e-2 * theirs.norm()


def _apart(shares: list[float], inputs: int) -> list[float]:
    """The share of the scores of time differences, the first parameter, after all others."""
    return [*shares[: 1 + inputs], *shares[2 + inputs :], shares[1 + inputs]]


def check_along_time(kind: type[SpikeTemporalSA | TemporalCrossAttn], **options: bool) -> None:
    """Attention along time, some pixels at a time."""
    layer = kind(CHANNELS, 2, 4, ChunkPolicy(False, size=4), compute=KERNELS, **options)
    randomise(layer)

    def run(compute: Compute, *inputs: Tensor) -> Tensor:
        compute_by(layer, compute)
        return layer(*inputs)

    inputs = [torch.randn(2, 3, 5, 7, CHANNELS) for _ in range(1 if kind is SpikeTemporalSA else 2)]
    *shares, correction = _apart(differences(run, inputs, HALF, layers=[layer]), len(inputs))
    print(f"{kind.__name__} {options}: {largest(shares):.1e}, time {correction:.1e}")
    assert largest(shares) < TOLERANCE
    # Of a head that hardly sees other frames next to nothing is left.
    assert correction < 2e-2


def main() -> None:
    # Memory that nobody has written holds NaN.
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    check_parameters_of_half_precision()
    check_blocks((3, 8, 8))
    check_blocks((3, 4, 4), again=True)
    check_blocks((3, 4, 4), compiled=True)
    check_blocks((5, 4, 8), mutual=False, drops=False)
    # Rows that windows do not divide; one frame, whose padded maps differ.
    check_blocks((3, 5, 7))
    check_blocks((1, 8, 4))
    check_along_time(SpikeTemporalSA, checkpoint=True)
    check_along_time(TemporalCrossAttn, identity=False)
    check_along_time(TemporalCrossAttn, identity=False, direct=True)


if __name__ == "__main__":
    main()
