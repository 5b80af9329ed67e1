"""Reading the machine code of kernels that are known."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from kernel_code import compile_kernel


@triton.jit
def adding_kernel(source, target, steps, EXTRA: tl.constexpr):
    """A loop whose iteration costs ``EXTRA`` multiplications and additions more."""
    at = tl.arange(0, 32)
    total = tl.zeros((32,), tl.float32)
    for step in range(steps):
        value = tl.load(source + step * 32 + at)
        for _ in tl.static_range(EXTRA):
            value = tl.fma(value, value, total)
        total += value
    tl.store(target + at, total)


@triton.jit
def large_kernel(source, target, steps, SIZE: tl.constexpr):
    """Holds ``SIZE`` numbers in 32 threads through a loop."""
    at = tl.arange(0, SIZE)
    total = tl.load(source + at)
    for step in range(steps):
        total = total * tl.load(source + step + at)
    tl.store(target + at, total)


POINTERS = {"source": "*fp32", "target": "*fp32"}
LOOP = {**POINTERS, "steps": "i32"}


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_an_iteration_is_counted_by_its_instructions(capability: int) -> None:
    options = {"num_warps": 1, "num_stages": 1}
    few, many = (
        compile_kernel(adding_kernel, LOOP, {"EXTRA": extra}, capability, **options)
        for extra in (40, 104)
    )
    # The compiler may unroll: then each copy has them all.
    grown = max(many.loops) - max(few.loops)
    assert grown % 64 == 0
    assert 64 <= grown
    assert max(few.loops) >= 40
    assert few.instructions < many.instructions
    assert few.stack == many.stack == few.shared == 0


def test_registers_that_do_not_suffice_are_seen() -> None:
    def code(size: int) -> Any:
        return compile_kernel(large_kernel, LOOP, {"SIZE": size}, 90, num_warps=1, num_stages=1)

    small, large = code(1024), code(8192)
    # 32 numbers of each thread fit, 256 do not: a thread has 255 registers.
    assert small.stack == 0
    assert 32 <= small.registers < 255
    assert large.stack >= 4
