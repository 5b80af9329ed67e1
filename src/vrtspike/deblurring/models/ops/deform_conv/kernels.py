"""Triton kernels of the guided deformable convolution; :mod:`.triton_deform` launches them.

A program treats a tile of pixels and, one tap of the 3 x 3 after the other, all groups at once:
displacements are computed from what the last offset convolution gave, the four corners of every
group are read, and the weighted sums are an operand of a matrix product right away. Displacements
never reach the memory of the device, and sampled values only in the backward pass, where they are
at hand anyway: the gradient of the weights is one matrix product with them.

Layouts: pictures (B, T, 2 + H + 2, 2 + W + 2, G * 8), ``G`` groups of 8 channels, both padded, so
that a corner of a group is read at once, and within a border of zeros, so that what is sampled
beyond needs no mask; results (B, T, H, W, 2, FAN_OUT), the aligned next and previous frame; of all
N pairs of frames ``raw`` (N, H, W, 9, 3, groups), for each tap what becomes the displacement down,
the displacement right and the modulation, once ``raw_bias`` (9, 3, groups) is added; weights
(9, G * 8, OUT).
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

TAPS = tl.constexpr(9)
# A group's channels are read as one vector of 16 bytes.
CHANNELS = tl.constexpr(8)
# Zeros around a picture: both corners of a direction may be beyond.
BORDER = tl.constexpr(2)
# The compiler's quotient has guards around the unit for reciprocals, which the interpreter lacks.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _frames_of(pair, pairs, steps):
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
def _tile(flow, pair, height, width, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Pixels of the program's tile of a pair: the first one's place, and each one's own.

    Returns:
        y and x, where the flow (N, 2, H, W) of each pixel points, in float32; whether it is inside
        of the frame, whose last pixels stand for those beyond; place of the first pixel of the
        tile among those of all pairs, in 64 bits; places of all from there, which 32 bits can name;
        their places in a plane of the flow.
    """
    top, left = tl.program_id(1) * TILE_H, tl.program_id(0) * TILE_W
    pixel = tl.arange(0, TILE_H * TILE_W)
    row, column = pixel // TILE_W, pixel % TILE_W
    inside = (row < height - top) & (column < width - left)
    row, column = tl.minimum(row, height - 1 - top), tl.minimum(column, width - 1 - left)
    first = (pair.to(tl.int64) * height + top) * width + left
    place = row * width + column
    row += top
    column += left
    in_flow = pair.to(tl.int64) * 2 * height * width + row * width + column
    right = tl.load(flow + in_flow).to(tl.float32)
    down = tl.load(flow + in_flow + height * width).to(tl.float32)
    y, x = row.to(tl.float32) + down, column.to(tl.float32) + right
    return y, x, inside, first, place, in_flow


@triton.jit
def _group(GROUPS: tl.constexpr, G: tl.constexpr):
    """(G,) groups, whose last one stands for those beyond: their channels are zeros."""
    group = tl.arange(0, G)
    if GROUPS < G:
        group = tl.minimum(group, GROUPS - 1)
    return group


@triton.jit
def _raw_pointers(raw, first, place, tap, GROUPS: tl.constexpr, G: tl.constexpr):
    """(pixels, G) pointers to the first of the three numbers of a tap."""
    numbers: tl.constexpr = 3 * TAPS * GROUPS
    pointers = place[:, None] * numbers + _group(GROUPS, G)[None, :]
    # One number a thread, as one group a thread later on, or values would change threads.
    return raw + first * numbers + tap * (3 * GROUPS) + tl.max_contiguous(pointers, [1, 1])


@triton.jit
def _sigmoid(pointers, bias, SCALE: tl.constexpr):
    """Of (pixels, G) of what the convolution gave, with its bias, times ``SCALE``; in float32."""
    # Exponentials have the base 2. That of a far number is infinite, and its share 0.
    scale: tl.constexpr = -1.4426950408889634 * SCALE
    scaled_bias = tl.load(bias).to(tl.float32) * scale
    power = 1.0 + tl.exp2(tl.load(pointers).to(tl.float32) * scale + scaled_bias[None, :])
    if _INTERPRETED:
        return 1.0 / power
    else:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [power], dtype=tl.float32, is_pure=True, pack=1
        )


@triton.jit
def _positions(
    raw, raw_bias, flow_y, flow_x, first, place, tap, height, width, magnitude,
    GROUPS: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Where a tap of every group is sampled, (pixels, G) each.

    Returns:
        row and column of the upper left corner, within the picture and its border; shares of the
        lower and of the right corners; modulation; tanh's of both displacements. Beyond, both
        corners of a direction are the border's, whatever their shares are.
    """
    pointers = _raw_pointers(raw, first, place, tap, GROUPS, G)
    bias = raw_bias + tap * (3 * GROUPS) + _group(GROUPS, G)
    tanh_y = 2.0 * _sigmoid(pointers, bias, 2) - 1.0
    tanh_x = 2.0 * _sigmoid(pointers + GROUPS, bias + GROUPS, 2) - 1.0
    modulation = _sigmoid(pointers + 2 * GROUPS, bias + 2 * GROUPS, 1)
    line = tap * 11 >> 5  # a third of it
    y = magnitude * tanh_y + (flow_y + (line - 1).to(tl.float32))[:, None]
    x = magnitude * tanh_x + (flow_x + (tap - 3 * line - 1).to(tl.float32))[:, None]
    top = tl.floor(tl.minimum(tl.maximum(y, -BORDER), tl.cast(height, tl.float32)))
    left = tl.floor(tl.minimum(tl.maximum(x, -BORDER), tl.cast(width, tl.float32)))
    return top.to(tl.int32), left.to(tl.int32), y - top, x - left, modulation, tanh_y, tanh_x


@triton.jit
def _corners(x, frame, row, column, height, width, G: tl.constexpr):
    """(pixels, G) pointers to the upper and the lower left corner of every group of a frame."""
    stride = width + 2 * BORDER
    first = frame * (height + 2 * BORDER) * stride + BORDER * (stride + 1)
    groups = x + first * (G * CHANNELS) + (tl.arange(0, G) * CHANNELS)[None, :]
    # In 64 bits at once: a multiplication that widens takes no more.
    at = (row * stride + column).to(tl.int64) * (G * CHANNELS)
    return groups + at, groups + stride * (G * CHANNELS) + at


@triton.jit
def _corner(pointers):
    """(pixels, G, 8) values of a corner, in float32."""
    if pointers.dtype.element_ty == tl.bfloat16:
        # Words of two numbers, which are the upper half of a float32: one instruction a number.
        words = pointers.to(tl.pointer_type(tl.int32), bitcast=True)
        words = tl.load(words[:, :, None] + tl.arange(0, CHANNELS // 2)[None, None, :])
        first, second = words << 16, words & -65536
        values = tl.join(first.to(tl.float32, bitcast=True), second.to(tl.float32, bitcast=True))
        return tl.reshape(values, (words.shape[0], words.shape[1], CHANNELS))
    else:
        return tl.load(pointers[:, :, None] + tl.arange(0, CHANNELS)[None, None, :]).to(tl.float32)


@triton.jit
def forward_kernel(
    x, raw, raw_bias, flow, weight, height, width, pairs, steps, magnitude, bias, out,
    GROUPS: tl.constexpr, FAN_OUT: tl.constexpr, G: tl.constexpr, OUT: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr,
):  # fmt: skip
    """Result of a tile of pixels of a pair; the grid is (tiles across, tiles down, pairs)."""
    pair = tl.program_id(2)
    flow_y, flow_x, inside, first, place, _in_flow = _tile(
        flow, pair, height, width, TILE_H, TILE_W
    )
    neighbour, frame, previous = _frames_of(pair, pairs, steps)
    channel, to = tl.arange(0, G * CHANNELS), tl.arange(0, OUT)
    total = tl.zeros((TILE_H * TILE_W, OUT), tl.float32)
    for tap in range(0, TAPS):
        up, left, low, east, modulation, _tanh_y, _tanh_x = _positions(
            raw, raw_bias, flow_y, flow_x, first, place, tap, height, width, magnitude, GROUPS, G
        )
        corners = _corners(x, neighbour, up, left, height, width, G)
        value = tl.zeros((TILE_H * TILE_W, G, CHANNELS), tl.float32)
        for below in tl.static_range(2):
            vertical = modulation * (low if below else 1.0 - low)
            for right in tl.static_range(2):
                share = vertical * (east if right else 1.0 - east)
                value += _corner(corners[below] + right * (G * CHANNELS)) * share[:, :, None]
        columns = tl.reshape(value, (TILE_H * TILE_W, G * CHANNELS)).to(x.dtype.element_ty)
        matrix = tl.load(weight + tap * (G * CHANNELS * OUT) + channel[:, None] * OUT + to[None, :])
        total += tl.dot(columns, matrix)
    total += tl.load(bias + to, mask=to < FAN_OUT, other=0.0).to(tl.float32)[None, :]
    start = (first + (frame - pair) * (height * width)) * 2 + previous
    pointers = out + start * FAN_OUT + place[:, None] * (2 * FAN_OUT) + to[None, :]
    mask = inside[:, None] & (to < FAN_OUT)[None, :]
    tl.store(pointers, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _halves(values, G: tl.constexpr):
    """(pixels, G * 8) -> the first and the last four channels of each group, (pixels, G, 4)."""
    halves = tl.reshape(values, (values.shape[0], G, 2, CHANNELS // 2))
    return tl.split(tl.permute(halves, (0, 1, 3, 2)))


@triton.jit(do_not_specialize=["begin"])
def backward_kernel(
    x, raw, raw_bias, flow, weight, height, width, pairs, steps, magnitude,
    grad, grad_x, grad_raw, grad_flow, columns, begin,
    GROUPS: tl.constexpr, FAN_OUT: tl.constexpr, G: tl.constexpr, OUT: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PITCH: tl.constexpr, FOR_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile: adds to that of x, writes those of ``raw`` and of the flow.

    ``grad_x`` is float32, (B, T, H, W, 2, G, 4): first the first four channels of each group. For
    the gradient of the weights the sampled values ``columns``, (pixels, 9, groups, 8), are written.
    The grid is (tiles across, tiles down, pairs), from the pair ``begin`` on, where ``columns``
    begins. From a pixel of ``grad`` to the next there are ``PITCH`` numbers.
    """
    pair = begin + tl.program_id(2)
    flow_y, flow_x, inside, first, place, in_flow = _tile(flow, pair, height, width, TILE_H, TILE_W)
    neighbour, frame, previous = _frames_of(pair, pairs, steps)
    plane = height * width
    group, channel, four = tl.arange(0, G), tl.arange(0, G * CHANNELS), tl.arange(0, 4)
    to = tl.arange(0, OUT)
    start = (first + (frame - pair) * plane) * PITCH + previous * FAN_OUT
    of_rows = grad + start + place[:, None] * PITCH + to[None, :]
    rows = tl.load(of_rows, mask=inside[:, None] & (to < FAN_OUT)[None, :], other=0.0)
    some = inside[:, None] & (group < GROUPS)[None, :]
    of_features = grad_x + neighbour * plane * (G * CHANNELS) + (group * 4)[None, :]
    numbers: tl.constexpr = TAPS * GROUPS * CHANNELS
    of_columns = columns + (first - tl.cast(begin, tl.int64) * plane) * numbers
    of_columns += place[:, None] * numbers + (group * CHANNELS)[None, :]
    total_y = tl.zeros((TILE_H * TILE_W, G), tl.float32)
    total_x = tl.zeros((TILE_H * TILE_W, G), tl.float32)
    for tap in range(0, TAPS):
        matrix = tl.load(weight + tap * (G * CHANNELS * OUT) + channel[None, :] * OUT + to[:, None])
        front, back = _halves(tl.dot(rows, matrix), G)
        up, left, low, east, modulation, tanh_y, tanh_x = _positions(
            raw, raw_bias, flow_y, flow_x, first, place, tap, height, width, magnitude, GROUPS, G
        )
        corners = _corners(x, neighbour, up, left, height, width, G)
        by_y, by_x = tl.zeros(low.shape, tl.float32), tl.zeros(low.shape, tl.float32)
        by_modulation = tl.zeros(low.shape, tl.float32)
        sum_front, sum_back = tl.zeros(front.shape, tl.float32), tl.zeros(front.shape, tl.float32)
        for below in tl.static_range(2):
            vertical = low if below else 1.0 - low
            row = up + below
            for right in tl.static_range(2):
                horizontal = east if right else 1.0 - east
                column = left + right
                share = (modulation * vertical * horizontal)[:, :, None]
                # Of unsigned numbers, those before the first are beyond the last.
                there = some & (row.to(tl.uint32) < tl.cast(height, tl.uint32))
                there = (there & (column.to(tl.uint32) < tl.cast(width, tl.uint32)))[:, :, None]
                of_corner = of_features + (row * width + column) * (G * CHANNELS)
                of_corner = of_corner[:, :, None] + four[None, None, :]
                tl.atomic_add(of_corner, front * share, mask=there, sem="relaxed")
                tl.atomic_add(of_corner + G * 4, back * share, mask=there, sem="relaxed")
                values = _corner(corners[below] + right * (G * CHANNELS))
                front_value, back_value = _halves(values, G)
                if FOR_WEIGHT:
                    sum_front += front_value * share
                    sum_back += back_value * share
                by_corner = tl.sum(front_value * front + back_value * back, axis=2)
                by_modulation += vertical * horizontal * by_corner
                by_y += (horizontal if below else -horizontal) * by_corner
                by_x += (vertical if right else -vertical) * by_corner
        if FOR_WEIGHT:
            of_tap = (of_columns + tap * (GROUPS * CHANNELS))[:, :, None] + four[None, None, :]
            tl.store(of_tap, sum_front.to(columns.dtype.element_ty), mask=some[:, :, None])
            tl.store(of_tap + 4, sum_back.to(columns.dtype.element_ty), mask=some[:, :, None])
        by_y *= modulation
        by_x *= modulation
        type_ = grad_raw.dtype.element_ty
        pointers = _raw_pointers(grad_raw, first, place, tap, GROUPS, G)
        slope_y, slope_x = 1.0 - tanh_y * tanh_y, 1.0 - tanh_x * tanh_x
        by_raw = by_modulation * modulation * (1.0 - modulation)
        tl.store(pointers, (magnitude * by_y * slope_y).to(type_), mask=some)
        tl.store(pointers + GROUPS, (magnitude * by_x * slope_x).to(type_), mask=some)
        tl.store(pointers + 2 * GROUPS, by_raw.to(type_), mask=some)
        total_y += by_y
        total_x += by_x
    type_of_flow = grad_flow.dtype.element_ty
    tl.store(grad_flow + in_flow, tl.sum(total_x, 1).to(type_of_flow), mask=inside)
    tl.store(grad_flow + in_flow + plane, tl.sum(total_y, 1).to(type_of_flow), mask=inside)
