"""Triton kernel of the layers between attention and the next block; :mod:`.joined` calls it.

Projection and residual move bytes, the feed-forward layer issues instructions: one kernel does both
at a time. What lies between is written for the backward pass, and read again only by the program
that wrote it, from the cache.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types. A
# condition that is compiled away stands around one that is not, not joined with it.
# ruff: noqa: ANN001, ANN201, SIM102
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.kernel_tiles import load_rows, load_rows_again, store_rows
from vrtspike.deblurring.models.token_ops.feed_forward_kernels import factor_of, fed_forward
from vrtspike.deblurring.models.token_ops.kernel_parts import statistics, store_moments
from vrtspike.deblurring.models.token_ops.projection_kernels import projected


@triton.jit(do_not_specialize_on_alignment=["keep", "keep_fed"])
def joined_kernel(
    x, keep, w_own, w_mutual, bias, own, mutual, between, keep_fed, w_gate, w_value, w_out, b_out,
    out, moments, length, length_own, length_mutual, height, width, padded_h, padded_w,
    C: tl.constexpr, BLOCK_C: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr,
    BLOCK: tl.constexpr, SPATIAL: tl.constexpr, MUTUAL: tl.constexpr, GATED: tl.constexpr,
    KEEP: tl.constexpr, KEEP_FED: tl.constexpr, EPSILON: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What ``output_kernel`` gives, into ``between``, and ``forward_kernel`` of that, into ``out``.

    ``keep`` has the factors of the first branch, ``keep_fed`` those of the feed-forward layer.
    """
    sample = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    left = length - first
    at = sample * length + first
    factor, factor_fed = factor_of(keep, sample, KEEP), factor_of(keep_fed, sample, KEEP_FED)
    count = left
    if KEEP:
        count = tl.where(factor == 0, 0, left)  # nothing is read
    total = projected(
        w_own, w_mutual, bias, own, mutual, sample, first, count, length_own, length_mutual, height,
        width, padded_h, padded_w, C, BLOCK_C, BLOCK, SPATIAL, MUTUAL, PRECISION,
    )  # fmt: skip
    stream = load_rows(x, at, left, BLOCK, C, BLOCK_C).to(tl.float32) + factor * total
    stream = stream.to(between.dtype.element_ty).to(tl.float32)
    store_rows(between, at, left, stream, BLOCK, C, BLOCK_C)
    if KEEP_FED:
        if factor_fed == 0:
            store_rows(out, at, left, stream, BLOCK, C, BLOCK_C)
            return

    # Other threads read what these have written.
    tl.debug_barrier()
    rows = tl.arange(0, BLOCK)
    mean, rstd = statistics(between, at, rows, rows < left, C, EPSILON)
    store_moments(moments, at, left, mean, rstd, BLOCK)
    total = fed_forward(
        stream, mean, rstd, w_gate, w_value, w_out, b_out, C, BLOCK_C, H, BLOCK_H, BLOCK, GATED,
        PRECISION,
    )  # fmt: skip
    stream = load_rows_again(between, at, left, BLOCK, C, BLOCK_C)
    store_rows(out, at, left, stream + factor_fed * total, BLOCK, C, BLOCK_C)
