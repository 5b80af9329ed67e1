"""Compares the kernels of projections with the reference; in Triton's interpreter on a CPU.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys
from itertools import product

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.ops.comparison import (
    differences,
    isolated,
    largest,
    relative_errors,
)
from vrtspike.deblurring.models.ops.dispatch import KERNELS, REFERENCE, Compute
from vrtspike.deblurring.models.ops.projections import (
    add_linear,
    add_output,
    attention_inputs,
    norm_linear,
)
from vrtspike.deblurring.models.ops.projections.operation import (
    Case,
    _windows,
    input_differences,
    output_differences,
    trial,
)

# Float16 stands for bfloat16, which the interpreter cannot multiply.
HALF = torch.float16
TOLERANCE = 2e-3
CPU = torch.device("cpu")
QUICK: Case = (24, (3, 8, 4), (2, 4, 4))
# Several blocks of rows and a part of one, with a frame to be padded; windows that are shifted by
# three; one frame without mutual attention; the widths of the published model.
CASES: tuple[Case, ...] = (
    (16, (3, 8, 12), (2, 4, 4)),
    (16, (2, 7, 14), (2, 7, 7)),
    (96, (3, 4, 4), (2, 4, 4)),
    (120, (1, 8, 20), (2, 4, 4)),
)


def check_case(case: Case, *, mutual: bool, drops: bool) -> None:
    """Results and all gradients are those of the reference."""
    for compare in (input_differences, output_differences):
        found = largest(compare(CPU, HALF, case, mutual=mutual, drops=drops))
        print(f"{compare.__name__} {case} {mutual=} {drops=}: {found:.1e}")
        assert found < TOLERANCE


def check_tokens() -> None:
    """Attention along time has no windows, and tokens of any number of dimensions."""
    norm, layer, last = nn.LayerNorm(24), nn.Linear(24, 40), nn.Linear(24, 24)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)

    def run(compute: Compute, x: Tensor, y: Tensor) -> list[Tensor]:
        through, projected = norm_linear(x, norm, layer, compute)
        return [projected, add_linear(through, last, y, compute)]

    inputs = [torch.randn(2, 3, 50, 24), torch.randn(2, 3, 50, 24)]
    layers = (norm, layer, last)
    assert largest(differences(run, inputs, HALF, layers=layers)) < TOLERANCE


def check_order_in_memory() -> None:
    """Gradients that lie channels first, and features that do, are read as what they are."""
    norm, layer = nn.LayerNorm(24), nn.Linear(24, 40)
    x = torch.randn(2, 24, 60).transpose(1, 2).requires_grad_()
    grads = [torch.randn(2, n, 60).transpose(1, 2) for n in (24, 40)]
    found = []
    for compute in (KERNELS, REFERENCE):
        with torch.autocast("cpu", HALF, enabled=compute is KERNELS):
            outs = norm_linear(x, norm, layer, compute)
        leaves = [x, *norm.parameters(), *layer.parameters()]
        grads = [g.to(out.dtype) for g, out in zip(grads, outs, strict=True)]
        found.append([*outs, *torch.autograd.grad(outs, leaves, grads)])
    assert largest(relative_errors(*found)) < TOLERANCE


def check_dropped() -> None:
    """Nothing is read of the attention of a dropped sample: it has projections of zero."""
    windows = _windows(QUICK, mutual=True)
    keep, x = torch.tensor([0.0, 1.25]), torch.randn(2, 3, 8, 4, 24)
    norm, own, mutual = nn.LayerNorm(24), nn.Linear(24, 72), nn.Linear(24, 72)
    code, tokens = torch.randn(4, 4, 24), 4 * 8 * 4
    with torch.autocast("cpu", HALF), torch.no_grad():
        through, *qkv = attention_inputs(x, norm, own, mutual, code, windows, KERNELS, keep)
        assert through.data_ptr() == x.data_ptr()
        for projected in qkv:
            assert projected.shape == (2, tokens, 72)
            assert not projected[0].any()
            assert projected[1].abs().amax(-1).all()
        branches = torch.full((2, 2, tokens, 24), torch.nan).half()
        branches[:, 1] = 1
        out = add_output(x, nn.Linear(48, 24), *branches, windows, KERNELS, keep)
    assert torch.equal(out[0], x[0])
    assert not (out[1] == x[1]).all()


def check_small_codes() -> None:
    """Codes of which half precision would leave nothing."""
    case: Case = (16, (2, 4, 4), (2, 4, 4))
    norm, layer = nn.LayerNorm(16), nn.Linear(16, 48)
    code = 10 + 1e-3 * torch.rand(4, 4, 16)
    with torch.no_grad():
        norm.weight.zero_()
        layer.bias.zero_()
        layer.weight.copy_(torch.tensor([1.0, -1.0]).repeat(48, 8))
        given = (torch.randn(1, 2, 4, 4, 16), norm, layer, layer, code, _windows(case, mutual=True))
        with torch.autocast("cpu", HALF):
            found = attention_inputs(*given, KERNELS)[2]
        expected = attention_inputs(*given, REFERENCE)[2]
    assert found is not None
    assert expected is not None
    assert largest(relative_errors([found], [expected])) < TOLERANCE


def main() -> None:
    if torch.cuda.is_available():
        assert trial(torch.device("cuda"), HALF) < TOLERANCE
        return
    # Memory that nobody has written holds NaN.
    torch.use_deterministic_algorithms(True)
    with isolated(CPU):
        check_case(QUICK, mutual=True, drops=True)
        if "quick" in sys.argv:
            return
        for check in (check_tokens, check_order_in_memory, check_dropped, check_small_codes):
            check()
    for case, mutual, drops in product(CASES, (False, True), (False, True)):
        if not (mutual and case[1][0] == 1):
            check_case(case, mutual=mutual, drops=drops)


if __name__ == "__main__":
    main()
