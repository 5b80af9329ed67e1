"""Kernels that compile in an instant; processes that compile import this module."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, out, number, factor, BLOCK: tl.constexpr):
    """``out = number * factor * x`` of one block."""
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * factor * number)


@triton.jit
def broken_kernel(x, out, number, factor, BLOCK: tl.constexpr):
    """Does not compile: there is no such function."""
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.no_such_function(x + at))
