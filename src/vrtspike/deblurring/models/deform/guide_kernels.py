"""Triton kernels of the alignment's guide; :mod:`.guide` calls them.

A program treats a few pixels of a frame with all their channels.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.deform.triton_kernels import frames_of, of_pairs, upper_left, within


@triton.jit
def _targets(flow, height, width, BLOCK: tl.constexpr):
    """Pixels of a program, of one row, and where their flow points.

    Returns:
        the pair; pixels of the program in the frame, and which there are;
        pixel of the upper left corner; shares of the lower right; which corners are inside.
    """
    row, pair = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    pixel = row * width + column
    plane = height * width
    pointers = flow + pair.to(tl.int64) * 2 * plane + pixel
    x = column.to(tl.float32) + tl.load(pointers, mask=inside, other=0.0).to(tl.float32)
    y = row.to(tl.float32) + tl.load(pointers + plane, mask=inside, other=0.0).to(tl.float32)
    top, left, low, east = upper_left(y, x, height, width)
    nw, ne, sw, se = within(top, left, inside, height, width)
    return pair, pixel, inside, top * width + left, low, east, nw, ne, sw, se


@triton.jit
def _there(inside, begin, BLOCK_C: tl.constexpr, CHANNELS: tl.constexpr):
    """(pixels, BLOCK_C), or (pixels, 1) if all channels from the ``begin``-th on are there."""
    if CHANNELS % BLOCK_C == 0:
        return inside[:, None]
    else:
        return inside[:, None] & (begin + tl.arange(0, BLOCK_C) < CHANNELS)[None, :]


@triton.jit
def _rows(
    base, pixel, inside, begin, BLOCK_C: tl.constexpr, CHANNELS: tl.constexpr, WIDTH: tl.constexpr
):
    """(pixels, BLOCK_C) of rows of ``WIDTH`` numbers, from the ``begin``-th on, in float32."""
    pointers = base + pixel.to(tl.int64)[:, None] * WIDTH + begin
    if base.dtype.element_ty == tl.bfloat16 and CHANNELS % BLOCK_C == 0:
        pairs = pointers.to(tl.pointer_type(tl.int32), bitcast=True)
        pairs += tl.arange(0, BLOCK_C // 2)[None, :]
        values = tl.load(pairs, mask=inside[:, None], other=0)
        return of_pairs(values, (values.shape[0], BLOCK_C))
    else:
        there = _there(inside, begin, BLOCK_C, CHANNELS)
        pointers += tl.arange(0, BLOCK_C)[None, :]
        return tl.load(pointers, mask=there, other=0.0).to(tl.float32)


@triton.jit
def guide_kernel(
    x, flow, guide, height, width, pairs, steps, BLOCK: tl.constexpr, CHANNELS: tl.constexpr,
    BLOCK_C: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Writes warped neighbour, current frame, flow, one and zeros, (N, H, W, WIDTH)."""
    pair, pixel, inside, corner, low, east, nw, ne, sw, se = _targets(flow, height, width, BLOCK)
    neighbour, frame, _ = frames_of(pair, pairs, steps)
    plane = height * width
    picture = x + neighbour * plane * CHANNELS
    current = x + frame * plane * CHANNELS
    high, west = 1.0 - low, 1.0 - east
    type_ = guide.dtype.element_ty
    rows = guide + pair.to(tl.int64) * plane * WIDTH + pixel[:, None] * WIDTH
    for begin in tl.static_range(0, CHANNELS, BLOCK_C):
        value = _rows(picture, corner, nw, begin, BLOCK_C, CHANNELS, CHANNELS)
        value *= (high * west)[:, None]
        other = _rows(picture, corner + 1, ne, begin, BLOCK_C, CHANNELS, CHANNELS)
        value += other * (high * east)[:, None]
        other = _rows(picture, corner + width, sw, begin, BLOCK_C, CHANNELS, CHANNELS)
        value += other * (low * west)[:, None]
        other = _rows(picture, corner + width + 1, se, begin, BLOCK_C, CHANNELS, CHANNELS)
        value += other * (low * east)[:, None]
        here = _rows(current, pixel, inside, begin, BLOCK_C, CHANNELS, CHANNELS)
        channel = begin + tl.arange(0, BLOCK_C)[None, :]
        there = _there(inside, begin, BLOCK_C, CHANNELS)
        tl.store(rows + channel, value.to(type_), mask=there)
        tl.store(rows + CHANNELS + channel, here.to(type_), mask=there)
    # The flow's two numbers, one and zeros; at most ten of them.
    rest = tl.arange(0, 16)[None, :]
    pointers = flow + pair.to(tl.int64) * 2 * plane + pixel[:, None] + rest * plane
    numbers = tl.load(pointers, mask=inside[:, None] & (rest < 2), other=0.0).to(tl.float32)
    numbers = tl.where(rest == 2, 1.0, numbers)
    tl.store(
        rows + 2 * CHANNELS + rest,
        numbers.to(type_),
        mask=inside[:, None] & (rest < WIDTH - 2 * CHANNELS),
    )


@triton.jit
def _corner_gradient(
    picture, grad_picture, corner, inside, share, grad, begin, BLOCK_C: tl.constexpr,
    CHANNELS: tl.constexpr, FOR_X: tl.constexpr, FOR_FLOW: tl.constexpr,
):  # fmt: skip
    """Adds to the gradient of a corner; its values times the gradients, summed over channels."""
    if FOR_X:
        pointers = grad_picture + corner.to(tl.int64)[:, None] * CHANNELS
        pointers += begin + tl.arange(0, BLOCK_C)[None, :]
        there = _there(inside, begin, BLOCK_C, CHANNELS)
        tl.atomic_add(pointers, grad * share[:, None], mask=there, sem="relaxed")
    if FOR_FLOW:
        values = _rows(picture, corner, inside, begin, BLOCK_C, CHANNELS, CHANNELS)
        return tl.sum(values * grad, axis=1)
    return share


@triton.jit
def guide_gradient_kernel(
    grad, x, flow, grad_x, grad_flow, height, width, pairs, steps, BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK_C: tl.constexpr, WIDTH: tl.constexpr,
    FOR_X: tl.constexpr, FOR_FLOW: tl.constexpr,
):  # fmt: skip
    """Adds to the gradient of the features (float32); writes that of the flow."""
    pair, pixel, inside, corner, low, east, nw, ne, sw, se = _targets(flow, height, width, BLOCK)
    neighbour, frame, _ = frames_of(pair, pairs, steps)
    plane = height * width
    picture = x + neighbour * plane * CHANNELS
    grad_picture = grad_x + neighbour * plane * CHANNELS
    rows = grad + pair.to(tl.int64) * plane * WIDTH
    high, west = 1.0 - low, 1.0 - east
    by_x, by_y = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for begin in tl.static_range(0, CHANNELS, BLOCK_C):
        if FOR_X:
            by_here = _rows(rows + CHANNELS, pixel, inside, begin, BLOCK_C, CHANNELS, WIDTH)
            pointers = grad_x + frame * plane * CHANNELS + pixel.to(tl.int64)[:, None] * CHANNELS
            pointers += begin + tl.arange(0, BLOCK_C)[None, :]
            there = _there(inside, begin, BLOCK_C, CHANNELS)
            tl.atomic_add(pointers, by_here, mask=there, sem="relaxed")
        by_value = _rows(rows, pixel, inside, begin, BLOCK_C, CHANNELS, WIDTH)
        by_nw = _corner_gradient(
            picture, grad_picture, corner, nw, high * west, by_value, begin,
            BLOCK_C, CHANNELS, FOR_X, FOR_FLOW,
        )  # fmt: skip
        by_ne = _corner_gradient(
            picture, grad_picture, corner + 1, ne, high * east, by_value, begin,
            BLOCK_C, CHANNELS, FOR_X, FOR_FLOW,
        )  # fmt: skip
        by_sw = _corner_gradient(
            picture, grad_picture, corner + width, sw, low * west, by_value, begin,
            BLOCK_C, CHANNELS, FOR_X, FOR_FLOW,
        )  # fmt: skip
        by_se = _corner_gradient(
            picture, grad_picture, corner + width + 1, se, low * east, by_value, begin,
            BLOCK_C, CHANNELS, FOR_X, FOR_FLOW,
        )  # fmt: skip
        by_x += high * (by_ne - by_nw) + low * (by_se - by_sw)
        by_y += west * (by_sw - by_nw) + east * (by_se - by_ne)
    if FOR_FLOW:
        own = rows + pixel * WIDTH + 2 * CHANNELS
        by_x += tl.load(own, mask=inside, other=0.0).to(tl.float32)
        by_y += tl.load(own + 1, mask=inside, other=0.0).to(tl.float32)
        type_ = grad_flow.dtype.element_ty
        pointers = grad_flow + pair.to(tl.int64) * 2 * plane + pixel
        tl.store(pointers, by_x.to(type_), mask=inside)
        tl.store(pointers + plane, by_y.to(type_), mask=inside)
