"""Triton kernels of the guided deformable convolution; :mod:`.kernel` calls them.

A program treats a tile of pixels and, one sampling point of the 3 x 3 after the other, all groups
at once: displacements are computed from what the convolution gave, the four corners of every group
are read, and the weighted sums are an operand of a matrix product right away. Displacements never
reach the memory of the device, and sampled values only in the backward pass, which has them at hand
where it makes other gradients: the weights' is one matrix product with them, for less than what it
takes to sample once more.

Layouts: pictures (B, T, 2 + H + 2, 2 + W + 2, G * C), ``G`` groups of ``C`` channels, both padded
to powers of two, so that a corner of a group is read at once, and within a border of zeros, so that
what is sampled beyond needs no mask; results (B, T, H, W, 2, FAN_OUT), the aligned next and
previous frame; of all N pairs of frames ``raw`` (N, H, W, 9, 3, groups), for each point what
becomes the displacement down, the displacement right and the modulation, once its bias ``shift``,
(9, 3, groups), is added; weights (9, G * C, OUT).
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

POINTS = tl.constexpr(9)
BORDER = tl.constexpr(2)
# The compiler's quotient has guards around the unit for reciprocals, which the interpreter lacks.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def frames_of(pair, pairs, steps):
    """The neighbour and the frame itself, of B * T, and whether the neighbour is the previous one.

    Args:
        pair: of all 2 * ``pairs``: first frames with their next one, then with their previous one.
        pairs: B * (T - 1).
        steps: T - 1.
    """
    previous = (pair >= pairs).to(tl.int32)
    among = pair - previous * pairs
    early = among + among // steps  # a clip has one frame more than steps
    neighbour, frame = early + 1 - previous, early + previous
    return neighbour.to(tl.int64), frame.to(tl.int64), previous


@triton.jit
def _tile(pair, height, width, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Pixels of the program's tile of a pair: the first one's place, and each one's own.

    Returns:
        row, column and whether they are inside of the frame, whose last ones stand for those
        beyond; place of the first pixel of the tile among those of all pairs, in 64 bits; places
        of all from there, which 32 bits can name.
    """
    top, left = tl.program_id(1) * TILE_H, tl.program_id(0) * TILE_W
    pixel = tl.arange(0, TILE_H * TILE_W)
    row, column = pixel // TILE_W, pixel % TILE_W
    inside = (row < height - top) & (column < width - left)
    row, column = tl.minimum(row, height - 1 - top), tl.minimum(column, width - 1 - left)
    first = (pair.to(tl.int64) * height + top) * width + left
    return top + row, left + column, inside, first, row * width + column


@triton.jit
def _targets(flow, pair, row, column, height, width):
    """Where the flow (N, 2, H, W) of pixels points, in float32: y, x."""
    plane = height * width
    pointers = flow + pair.to(tl.int64) * 2 * plane + row * width + column
    right, down = tl.load(pointers).to(tl.float32), tl.load(pointers + plane).to(tl.float32)
    return row.to(tl.float32) + down, column.to(tl.float32) + right


@triton.jit
def _group(GROUPS: tl.constexpr, G: tl.constexpr):
    """(G,) groups, whose last one stands for those beyond: their channels are zeros."""
    group = tl.arange(0, G)
    if GROUPS < G:
        group = tl.minimum(group, GROUPS - 1)
    return group


@triton.jit
def _raw_pointers(raw, first, place, point, GROUPS: tl.constexpr, G: tl.constexpr):
    """(pixels, G) pointers to the first of the three numbers of a point."""
    numbers: tl.constexpr = 3 * POINTS * GROUPS
    pointers = place[:, None] * numbers + _group(GROUPS, G)[None, :]
    # One number a thread, as one group a thread later on, or values would change threads.
    return raw + first * numbers + point * (3 * GROUPS) + tl.max_contiguous(pointers, [1, 1])


@triton.jit
def _sigmoid(pointers, shift, SCALE: tl.constexpr, PRECISION: tl.constexpr):
    """Of (pixels, G) of what the convolution gave, with its bias, times ``SCALE``; in float32."""
    # Exponentials have the base 2. That of a far number is infinite, and its share 0.
    scale: tl.constexpr = -1.4426950408889634 * SCALE
    bias = tl.load(shift).to(tl.float32) * scale
    power = 1.0 + tl.exp2(tl.load(pointers).to(tl.float32) * scale + bias[None, :])
    if _INTERPRETED or PRECISION == "ieee":
        return 1.0 / power
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [power], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def _positions(
    pointers, shift, target_y, target_x, point, magnitude,
    GROUPS: tl.constexpr, G: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Where a point of every group is sampled, (pixels, G) each: y, x, modulation, tanh's."""
    shift += point * (3 * GROUPS) + _group(GROUPS, G)
    tanh_y = 2.0 * _sigmoid(pointers, shift, 2, PRECISION) - 1.0
    tanh_x = 2.0 * _sigmoid(pointers + GROUPS, shift + GROUPS, 2, PRECISION) - 1.0
    modulation = _sigmoid(pointers + 2 * GROUPS, shift + 2 * GROUPS, 1, PRECISION)
    line = point * 11 >> 5  # a third of it
    y = magnitude * tanh_y + (target_y + (line - 1).to(tl.float32))[:, None]
    x = magnitude * tanh_x + (target_x + (point - 3 * line - 1).to(tl.float32))[:, None]
    return y, x, modulation, tanh_y, tanh_x


@triton.jit
def upper_left(y, x, height, width):
    """Upper left corner within the picture and its border: row, column; shares of the lower right.

    Beyond, both corners of a direction are the border's, whatever their shares are.
    """
    top = tl.floor(tl.minimum(tl.maximum(y, -BORDER), tl.cast(height, tl.float32)))
    left = tl.floor(tl.minimum(tl.maximum(x, -BORDER), tl.cast(width, tl.float32)))
    return top.to(tl.int32), left.to(tl.int32), y - top, x - left


@triton.jit
def within(row, column, some, height, width):
    """Which corners are inside of the picture: the upper two, then the lower two."""
    # Of unsigned numbers, those before the first are beyond the last.
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    up, low = row.to(tl.uint32) < rows, (row + 1).to(tl.uint32) < rows
    west, east = column.to(tl.uint32) < columns, (column + 1).to(tl.uint32) < columns
    up, low = up & some, low & some
    return up & west, up & east, low & west, low & east


@triton.jit
def _picture(x, frame, height, width, G: tl.constexpr, C: tl.constexpr):
    """Pointer to the first pixel of a frame behind its border, and pixels from row to row."""
    stride = width + 2 * BORDER
    start = frame * (height + 2 * BORDER) * stride + BORDER * (stride + 1)
    return x + start * (G * C), stride


@triton.jit
def _left_corners(picture, row, column, stride, G: tl.constexpr, C: tl.constexpr):
    """(pixels, G) pointers to the upper and the lower left corner of every group."""
    groups = picture + (tl.arange(0, G) * C)[None, :]
    # In 64 bits at once: a multiplication that widens takes no more.
    at = (row * stride + column).to(tl.int64) * (G * C)
    return groups + at, groups + stride * (G * C) + at


@triton.jit
def of_pairs(pairs, shape: tl.constexpr):
    """Words of two numbers of bfloat16 each, in float32 of ``shape``; one instruction a number."""
    first, second = pairs << 16, pairs & -65536
    values = tl.join(first.to(tl.float32, bitcast=True), second.to(tl.float32, bitcast=True))
    return tl.reshape(values, shape)


@triton.jit
def _corner(pointers, C: tl.constexpr):
    """(pixels, G, C) values of a corner, in float32."""
    if pointers.dtype.element_ty == tl.bfloat16:
        pairs = pointers.to(tl.pointer_type(tl.int32), bitcast=True)
        pairs = tl.load(pairs[:, :, None] + tl.arange(0, C // 2)[None, None, :])
        return of_pairs(pairs, (pairs.shape[0], pairs.shape[1], C))
    else:
        return tl.load(pointers[:, :, None] + tl.arange(0, C)[None, None, :]).to(tl.float32)


@triton.jit
def _columns(
    picture, stride, y, x, modulation, height, width, G: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """Sampled values of a point, modulated: (pixels, G * C) in the type of the picture."""
    row, column, low, east = upper_left(y, x, height, width)
    upper, lower = _left_corners(picture, row, column, stride, G, C)
    high, west = modulation * (1.0 - low), 1.0 - east
    low *= modulation
    value = _corner(upper, C) * (high * west)[:, :, None]
    value += _corner(upper + G * C, C) * (high * east)[:, :, None]
    value += _corner(lower, C) * (low * west)[:, :, None]
    value += _corner(lower + G * C, C) * (low * east)[:, :, None]
    return tl.reshape(value, (y.shape[0], G * C)).to(picture.dtype.element_ty)


@triton.jit
def forward_kernel(
    x, raw, shift, flow, weight, bias, out, height, width, pairs, steps, magnitude,
    GROUPS: tl.constexpr, FAN_OUT: tl.constexpr, G: tl.constexpr, C: tl.constexpr,
    OUT: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Result of a tile of pixels of a pair; the grid is (tiles across, tiles down, pairs)."""
    pair = tl.program_id(2)
    row, column, inside, first, place = _tile(pair, height, width, TILE_H, TILE_W)
    target_y, target_x = _targets(flow, pair, row, column, height, width)
    neighbour, frame, previous = frames_of(pair, pairs, steps)
    picture, stride = _picture(x, neighbour, height, width, G, C)
    channel, to = tl.arange(0, G * C), tl.arange(0, OUT)
    total = tl.zeros((TILE_H * TILE_W, OUT), tl.float32)
    for point in range(0, POINTS):
        pointers = _raw_pointers(raw, first, place, point, GROUPS, G)
        y, x_at, modulation, _, _ = _positions(
            pointers, shift, target_y, target_x, point, magnitude, GROUPS, G, PRECISION
        )
        columns = _columns(picture, stride, y, x_at, modulation, height, width, G, C)
        matrix = tl.load(weight + point * (G * C * OUT) + channel[:, None] * OUT + to[None, :])
        total += tl.dot(columns, matrix, input_precision=PRECISION)
    total += tl.load(bias + to, mask=to < FAN_OUT, other=0.0).to(tl.float32)[None, :]
    start = (first + (frame - pair) * (height * width)) * 2 + previous
    pointers = out + start * FAN_OUT + place[:, None] * (2 * FAN_OUT) + to[None, :]
    tl.store(
        pointers, total.to(out.dtype.element_ty), mask=inside[:, None] & (to < FAN_OUT)[None, :]
    )


@triton.jit
def _gradient_rows(
    grad, start, place, inside, FAN_OUT: tl.constexpr, OUT: tl.constexpr, PITCH: tl.constexpr
):
    """(pixels, OUT) of the gradient of the result, whose tile begins with number ``start``."""
    to = tl.arange(0, OUT)
    pointers = grad + start + place[:, None] * PITCH + to[None, :]
    return tl.load(pointers, mask=inside[:, None] & (to < FAN_OUT)[None, :], other=0.0)


@triton.jit
def _halves(values, G: tl.constexpr):
    """(pixels, G * 8) -> the first and the last four channels of each group, (pixels, G, 4)."""
    halves = tl.reshape(values, (values.shape[0], G, 2, 4))
    return tl.split(tl.permute(halves, (0, 1, 3, 2)))


@triton.jit
def _corner_gradient(
    values, grad_picture, pixel, inside, share, front, back, sum_front, sum_back,
    G: tl.constexpr, C: tl.constexpr, FOR_X: tl.constexpr, FOR_RAW: tl.constexpr,
    FOR_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Adds to the gradient of a corner.

    Returns:
        its values times the gradients of the column, summed, if FOR_RAW; ``sum_front`` and
        ``sum_back`` and, if FOR_WEIGHT, what the corner adds to both halves of the column.
    """
    if FOR_X:
        first = grad_picture + (pixel * (G * C) + (tl.arange(0, G) * 4)[None, :])
        pointers = first[:, :, None] + tl.arange(0, 4)[None, None, :]
        there = inside[:, :, None]
        tl.atomic_add(pointers, front * share[:, :, None], mask=there, sem="relaxed")
        tl.atomic_add(pointers + G * 4, back * share[:, :, None], mask=there, sem="relaxed")
    by_share = share
    if FOR_RAW or FOR_WEIGHT:
        front_value, back_value = _halves(_corner(values, C), G)
        if FOR_RAW:
            by_share = tl.sum(front_value * front + back_value * back, axis=2)
        if FOR_WEIGHT:
            sum_front += front_value * share[:, :, None]
            sum_back += back_value * share[:, :, None]
    return by_share, sum_front, sum_back


@triton.jit
def _store_columns(
    columns, first, place, point, some, front, back, GROUPS: tl.constexpr, G: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Write sampled values of a point, (pixels, 9, groups, C), of which ``first`` is the tile's."""
    row: tl.constexpr = POINTS * GROUPS * C
    at = place[:, None] * row + (tl.arange(0, G) * C)[None, :]
    pointers = columns + first * row + point * (GROUPS * C) + at
    pointers = pointers[:, :, None] + tl.arange(0, 4)[None, None, :]
    type_ = columns.dtype.element_ty
    tl.store(pointers, front.to(type_), mask=some[:, :, None])
    tl.store(pointers + 4, back.to(type_), mask=some[:, :, None])


@triton.jit(do_not_specialize=["begin"])
def input_kernel(
    grad, x, raw, shift, flow, weight, grad_x, grad_raw, grad_flow, columns, begin, height, width,
    pairs, steps, magnitude,
    GROUPS: tl.constexpr, FAN_OUT: tl.constexpr, G: tl.constexpr, C: tl.constexpr,
    OUT: tl.constexpr, TILE_H: tl.constexpr, TILE_W: tl.constexpr, PRECISION: tl.constexpr,
    FOR_X: tl.constexpr, FOR_RAW: tl.constexpr, FOR_FLOW: tl.constexpr, FOR_WEIGHT: tl.constexpr,
    PITCH: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile: adds to that of x (float32), writes those of raw and of the flow.

    For the gradient of the weights it writes ``columns``, the sampled values (pixels, 9, groups,
    C). The grid is (tiles across, tiles down, pairs), from the pair ``begin`` on, where
    ``columns`` begins. From a pixel of ``grad`` to the next there are ``PITCH`` numbers.
    """
    pair = begin + tl.program_id(2)
    row, column, inside, first, place = _tile(pair, height, width, TILE_H, TILE_W)
    target_y, target_x = _targets(flow, pair, row, column, height, width)
    neighbour, frame, previous = frames_of(pair, pairs, steps)
    plane = height * width
    picture, stride = _picture(x, neighbour, height, width, G, C)
    grad_picture = grad_x + neighbour * plane * (G * C)
    start = (first + (frame - pair) * plane) * PITCH + previous * FAN_OUT
    written = first - tl.cast(begin, tl.int64) * plane
    rows = _gradient_rows(grad, start, place, inside, FAN_OUT, OUT, PITCH)
    channel, to = tl.arange(0, G * C), tl.arange(0, OUT)
    some = inside[:, None] & (tl.arange(0, G) < GROUPS)[None, :]
    total_y = tl.zeros((TILE_H * TILE_W, G), tl.float32)
    total_x = tl.zeros((TILE_H * TILE_W, G), tl.float32)
    for point in range(0, POINTS):
        matrix = tl.load(weight + point * (G * C * OUT) + channel[None, :] * OUT + to[:, None])
        product = tl.dot(rows, matrix, input_precision=PRECISION)
        front, back = _halves(product, G)
        pointers = _raw_pointers(raw, first, place, point, GROUPS, G)
        y, x_at, modulation, tanh_y, tanh_x = _positions(
            pointers, shift, target_y, target_x, point, magnitude, GROUPS, G, PRECISION
        )
        up, left, low, east = upper_left(y, x_at, height, width)
        nw, ne, sw, se = within(up, left, some, height, width)
        above, below = _left_corners(picture, up, left, stride, G, C)
        at = up * width + left
        high, west = 1.0 - low, 1.0 - east
        upper, lower = modulation * high, modulation * low
        sum_front = tl.zeros(front.shape, tl.float32)
        sum_back = tl.zeros(front.shape, tl.float32)
        by_nw, sum_front, sum_back = _corner_gradient(
            above, grad_picture, at, nw, upper * west, front, back, sum_front, sum_back,
            G, C, FOR_X, FOR_RAW, FOR_WEIGHT,
        )  # fmt: skip
        by_ne, sum_front, sum_back = _corner_gradient(
            above + G * C, grad_picture, at + 1, ne, upper * east, front, back, sum_front, sum_back,
            G, C, FOR_X, FOR_RAW, FOR_WEIGHT,
        )  # fmt: skip
        at += width
        by_sw, sum_front, sum_back = _corner_gradient(
            below, grad_picture, at, sw, lower * west, front, back, sum_front, sum_back,
            G, C, FOR_X, FOR_RAW, FOR_WEIGHT,
        )  # fmt: skip
        by_se, sum_front, sum_back = _corner_gradient(
            below + G * C, grad_picture, at + 1, se, lower * east, front, back, sum_front, sum_back,
            G, C, FOR_X, FOR_RAW, FOR_WEIGHT,
        )  # fmt: skip
        if FOR_WEIGHT:
            _store_columns(columns, written, place, point, some, sum_front, sum_back, GROUPS, G, C)
        if FOR_RAW:
            by_modulation = high * (west * by_nw + east * by_ne) + low * (
                west * by_sw + east * by_se
            )
            by_y = modulation * (west * (by_sw - by_nw) + east * (by_se - by_ne))
            by_x = modulation * (high * (by_ne - by_nw) + low * (by_se - by_sw))
            type_ = grad_raw.dtype.element_ty
            pointers = _raw_pointers(grad_raw, first, place, point, GROUPS, G)
            slope_y, slope_x = 1.0 - tanh_y * tanh_y, 1.0 - tanh_x * tanh_x
            by_raw = by_modulation * modulation * (1.0 - modulation)
            tl.store(pointers, (magnitude * by_y * slope_y).to(type_), mask=some)
            tl.store(pointers + GROUPS, (magnitude * by_x * slope_x).to(type_), mask=some)
            tl.store(pointers + 2 * GROUPS, by_raw.to(type_), mask=some)
            total_y += by_y
            total_x += by_x
    if FOR_FLOW:
        pointers = grad_flow + pair.to(tl.int64) * 2 * plane + row * width + column
        type_of_flow = grad_flow.dtype.element_ty
        tl.store(pointers, tl.sum(total_x, 1).to(type_of_flow), mask=inside)
        tl.store(pointers + plane, tl.sum(total_y, 1).to(type_of_flow), mask=inside)
