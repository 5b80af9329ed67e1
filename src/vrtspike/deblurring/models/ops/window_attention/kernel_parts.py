"""Triton kernels of window attention: what all share, and the packing of the bias.

All read queries, keys and values where the linear layer left them, through the positions of a
plan: no roll, no partition, no copy. Scores exist only inside a kernel, in float32. With 16
channels a head the bound is the issue of instructions, not arithmetic, so a score costs as few as
possible:

* The bias is packed once a call, divided by the scale of the scores. It is where the product
  q k^T begins to be summed, so that adding it costs nothing; times ``scale * log2(e)`` the sum is
  the score in base 2, in which the GPU's exponential is one instruction.
* Where products come from shared memory (9.x and 10.x), the bias gets there by one more product,
  with the identity, whose values are exact: four instructions instead of a conversion for each
  value.
* Values have one more column, of ones: the product with the weights then sums them, too.
* The packed bias and the regions have rows of whole blocks. Keys beyond the last have a bias that
  leaves them no weight, and tokens beyond the last are loaded as the last one again, so that a
  number of tokens that no block divides needs no condition in the loop.
* Windows that hold one region are launched without regions. In others regions are compared by a
  product, too, of which each has a column.

Positions are 32-bit. An offset into the features is not: see :func:`token_offsets`. Heads and
channels are known to the compiler, to which an address is then one multiplication.
"""

# The parameters of a kernel are pointers and numbers of the device, which have no Python types.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from vrtspike.deblurring.models.ops.window_attention.windows import MAX_REGIONS

MASKED_SCORE = tl.constexpr(-100.0)
# Regions of a window have lower numbers.
_REGIONS = tl.constexpr(MAX_REGIONS)
LOG2_E = tl.constexpr(1.4426950408889634)
NUMBERS = ["first", "last", "share", "shares", "slot"]
"""Of a launch that sums over windows: other numbers are not another kernel."""


@triton.jit
def token_offsets(positions, width):
    """(rows, 1) offsets of tokens of ``width`` elements; clips of 720p pass 2**31 of them."""
    return positions.to(tl.int64)[:, None] * width


@triton.jit
def window_positions(plan, window, rows, N: tl.constexpr, BLOCK: tl.constexpr):
    """Positions of some tokens of a window; beyond the last token the last one again."""
    at = rows if N % BLOCK == 0 else tl.minimum(rows, N - 1)
    return tl.load(plan + window * N + at)


@triton.jit
def positions_in_first(plan, rows, N: tl.constexpr, BLOCK: tl.constexpr):
    """Positions of some tokens of the first window, from that of its first token on."""
    return window_positions(plan, 0, rows, N, BLOCK) - tl.load(plan)


@triton.jit
def load_head(base, offsets, D: tl.constexpr, BLOCK_D: tl.constexpr, ONES: tl.constexpr = False):
    """Load (rows, channels of a head), zeros beyond the last channel; if ONES, ones right after."""
    columns = tl.arange(0, BLOCK_D)
    pointers = base + offsets + columns[None, :]
    if D == BLOCK_D:
        return tl.load(pointers)
    else:
        other = (columns == D)[None, :] if ONES else 0.0
        return tl.load(pointers, mask=(columns < D)[None, :], other=other)


@triton.jit
def valid_elements(rows, N: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Which elements of (rows, channels of a head) exist."""
    return (rows < N)[:, None] & (tl.arange(0, BLOCK_D) < D)[None, :]


@triton.jit
def store_zeros(base, offsets, rows, N: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Zeros for (rows, channels of a head)."""
    pointers = base + offsets + tl.arange(0, BLOCK_D)[None, :]
    zeros = tl.zeros((rows.shape[0], BLOCK_D), base.dtype.element_ty)
    tl.store(pointers, zeros, mask=valid_elements(rows, N, D, BLOCK_D))


@triton.jit
def load_identity(packed, HEADS: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
                  BY_PRODUCT: tl.constexpr):  # fmt: skip
    """(BLOCK, BLOCK) of the identity that follows the packed bias, if it is needed."""
    if BY_PRODUCT:
        near = tl.arange(0, BLOCK)
        return tl.load(packed + HEADS * STRIDE * STRIDE + near[:, None] * STRIDE + near[None, :])
    else:
        return 0.0


@triton.jit
def load_bias(pointers, HAS_BIAS: tl.constexpr):
    """A tile of the packed bias; 0 where there is none."""
    if HAS_BIAS:
        return tl.load(pointers)
    else:
        return 0.0


@triton.jit
def _region_scores(regions, value, TYPE: tl.constexpr):
    """(rows, 2 columns for each region); those of a row's own region sum to ``value``.

    They do so to twice the digits of the type. In a product with :func:`_one_hot` they give it
    where both are of one region, and 0 elsewhere.
    """
    columns = tl.arange(0, 2 * _REGIONS)[None, :]
    value = tl.full((1, 1), value, tl.float32)
    high = value.to(TYPE).to(tl.float32)
    own = (columns & (_REGIONS - 1)) == regions[:, None]
    return tl.where(own, tl.where(columns < _REGIONS, high, value - high), 0.0).to(TYPE)


@triton.jit
def _one_hot(regions, TYPE: tl.constexpr):
    """The other operand: ones in both columns of a row's region."""
    columns = tl.arange(0, 2 * _REGIONS)[None, :]
    return ((columns & (_REGIONS - 1)) == regions[:, None]).to(TYPE)


@triton.jit
def biased_scores(
    q, k, eye, bias, region_q, regions_k, columns, scale, N: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_BIAS: tl.constexpr, BY_PRODUCT: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Scores of some queries and keys over ``scale``; beyond the last key the least there is.

    ``eye`` and ``bias`` are what :func:`load_identity` and :func:`load_bias` give for them. Keys of
    a query's own region have 100 more instead of the others 100 less, which is the same to a
    softmax.
    """
    start = tl.zeros((q.shape[0], k.shape[0]), tl.float32)
    if HAS_BIAS:
        start = tl.dot(eye, bias) if BY_PRODUCT else bias.to(tl.float32)
    if MASKED:
        own = _region_scores(region_q, -MASKED_SCORE / scale, q.dtype)
        start = tl.dot(own, tl.trans(_one_hot(tl.load(regions_k), q.dtype)), start)
    scores = tl.dot(q, tl.trans(k), start)
    if not HAS_BIAS and N % BLOCK_N != 0:
        scores = tl.where((columns < N)[None, :], scores, float("-inf"))
    return scores


@triton.jit
def softmax_weights(scores, unit, norm):
    """exp2(scores * unit - norm), ``norm`` of each row."""
    return tl.exp2(tl.fma(scores, unit, tl.broadcast_to(-norm[:, None], scores.shape)))


# Columns of the smallest product.
_COLUMNS = tl.constexpr(16)
# Of the first part, so that a sum of products of float16 need not be a number of float16 itself.
_COARSE = tl.constexpr(256.0)


@triton.jit
def delta_units(BLOCK: tl.constexpr, TYPE: tl.constexpr):
    """(BLOCK, columns), what the parts that :func:`_split` makes are multiples of."""
    columns = tl.arange(0, _COLUMNS)[None, :]
    units = tl.where(columns == 0, _COARSE, tl.where(columns < 3, 1.0, 0.0))
    return tl.broadcast_to(units, (BLOCK, _COLUMNS)).to(TYPE)


@triton.jit
def _split(values, TYPE: tl.constexpr):
    """(rows,) -> (rows, columns), which sum to them in a product with :func:`delta_units`.

    Exact to more than twice the digits of the type.
    """
    columns = tl.arange(0, _COLUMNS)[None, :]
    coarse = (values / _COARSE).to(TYPE).to(tl.float32)
    rest = values - coarse * _COARSE
    high = rest.to(TYPE).to(tl.float32)
    parts = tl.where(columns == 2, (rest - high)[:, None], 0.0)
    parts = tl.where(columns == 1, high[:, None], parts)
    return tl.where(columns == 0, coarse[:, None], parts).to(TYPE)


@triton.jit
def softmax_delta(g, o, BY_PRODUCT: tl.constexpr):
    """sum(grad * out) of each row, which the softmax subtracts from the gradients of its weights.

    Returns:
        it, (rows,) float32, and as :func:`score_gradients` takes it.
    """
    delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
    if BY_PRODUCT:
        return delta, _split(-delta, g.dtype)
    else:
        return delta, delta


@triton.jit
def score_gradients(weights, g, v, delta, units, BY_PRODUCT: tl.constexpr):
    """Gradients of a tile of scores, float32, from the weights and the gradients of results."""
    if BY_PRODUCT:
        start = tl.dot(delta, tl.trans(units))
        return weights * tl.dot(g, tl.trans(v), start)
    else:
        return weights * (tl.dot(g, tl.trans(v)) - delta[:, None])


@triton.jit
def packing_kernel(
    bias, packed, by_head, by_query, by_key, heads, factor, N: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """(heads, N, N) of any strides -> ``factor`` times that in (heads + 1, STRIDE, STRIDE).

    Beyond the last key the least value, beyond the last query 0. What comes last is the identity.
    """
    blocks: tl.constexpr = STRIDE // BLOCK
    pid = tl.program_id(0)
    head = pid // (blocks * blocks)
    rows = (pid // blocks) % blocks * BLOCK + tl.arange(0, BLOCK)
    columns = pid % blocks * BLOCK + tl.arange(0, BLOCK)
    at = head * by_head + rows[:, None] * by_query + columns[None, :] * by_key
    # No bias where the identity is wanted.
    exists = (rows < tl.where(head < heads, N, 0))[:, None] & (columns < N)[None, :]
    values = tl.load(bias + at, mask=exists, other=0.0).to(tl.float32) * factor
    # Finite: 0 times it has to be 0 in the product with the identity.
    least = -6e4 if packed.dtype.element_ty == tl.float16 else -1e30
    values = tl.where((columns < N)[None, :], values, least)
    values = tl.where(head < heads, values, (rows[:, None] == columns[None, :]).to(tl.float32))
    pointers = packed + head * STRIDE * STRIDE + rows[:, None] * STRIDE + columns[None, :]
    tl.store(pointers, values.to(packed.dtype.element_ty))
