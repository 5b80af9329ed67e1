"""Blocks and warps of the Triton kernels, chosen by counting the instructions of compiled code.

``benchmarks/kernel_code.py`` compiles and counts; ``tests/deblurring/models/test_kernel_code.py``
holds what it found for every variant that the presets use. A tile of 64 x 64 scores of four warps
is best in half precision; float32, whose products take no tensor cores, needs smaller ones.
"""

from __future__ import annotations

from typing import Any

import torch

from vrtspike.deblurring.models.kernel_launch import SMALLEST_DOT, precision, tile
from vrtspike.deblurring.models.windows import aligned_tokens

Constants = dict[str, Any]
"""Compile-time constants and launch options of a kernel, by name."""

_BLOCK, _BLOCK_FLOAT32 = 64, 32
# Products from registers to registers (8.x, 12.x) leave less room than those from shared memory.
_ROOMY = (9, 10)


def _common(
    tokens: int,
    width: int,
    heads: int,
    dtype: torch.dtype,
    *,
    masked: bool,
    biased: bool,
    capability: tuple[int, int],
) -> Constants:
    half = dtype != torch.float32
    block = min(tile(tokens), _BLOCK if half else _BLOCK_FLOAT32)
    return {
        "N": tokens,
        "STRIDE": aligned_tokens(tokens),
        "HEADS": heads,
        "D": width,
        "BLOCK_D": tile(width),
        "BLOCK_M": block,
        "BLOCK_N": block,
        "HAS_BIAS": biased,
        # Of 64 rows each: the products of 9.0 and 10.x.
        "BY_PRODUCT": biased and half and block == _BLOCK and capability[0] in _ROOMY,
        "MASKED": masked,
        "PRECISION": precision(dtype),
        "num_warps": block // SMALLEST_DOT if half else block // SMALLEST_DOT * 2,
        "num_stages": 1,
    }


def forward_shape(
    tokens: int,
    width: int,
    heads: int,
    dtype: torch.dtype,
    *,
    masked: bool,
    biased: bool,
    capability: tuple[int, int] = (9, 0),
) -> Constants:
    """Of ``forward_kernel`` on a GPU of a compute capability.

    Args:
        tokens: of a problem.
        width: channels of a head.
        heads: how many there are.
        dtype: of queries, keys and values.
        masked: whether it looks at regions.
        biased: whether scores have a bias.
        capability: of the GPU.
    """
    shape = _common(
        tokens, width, heads, dtype, masked=masked, biased=biased, capability=capability
    )
    # In half precision a column more costs less than adding every weight.
    shape["BLOCK_V"] = tile(width) if dtype == torch.float32 else tile(width + 1)
    if dtype != torch.float32 and aligned_tokens(tokens) % (2 * _BLOCK) == 0:
        # Half as often a new maximum, by which all sums so far have to be scaled.
        shape["BLOCK_N"] = 2 * _BLOCK
    return shape


def gradient_shape(
    tokens: int,
    width: int,
    heads: int,
    dtype: torch.dtype,
    *,
    masked: bool,
    biased: bool,
    capability: tuple[int, int] = (9, 0),
) -> Constants:
    """Of ``gradient_kernel``; as for the forward pass."""
    shape = _common(
        tokens, width, heads, dtype, masked=masked, biased=biased, capability=capability
    )
    blocks = -(-tokens // shape["BLOCK_M"])
    most = _most_blocks(dtype, shape["BLOCK_D"], blocks, capability[0], masked=masked)
    groups = -(-blocks // most)
    return {**shape, "GROUP": -(-blocks // groups)}


def _most_blocks(
    dtype: torch.dtype, padded_width: int, blocks: int, major: int, *, masked: bool
) -> int:
    """Blocks of queries whose gradients fit into the registers of a program, without a spill."""
    if dtype == torch.float32 or padded_width > 2 * SMALLEST_DOT:
        return 1
    if padded_width > SMALLEST_DOT:
        if major not in _ROOMY:
            return 1
        return 2 if masked or blocks > 5 else 3
    if major in _ROOMY:
        # For three the assembler for 10.x settles on half of the registers, which do not suffice.
        return 2 if (major, blocks) == (10, 3) else 6
    # The assembler finds room for all of five, but for none of three, four or six without a spill.
    return 5 if blocks == 5 else 2


def bias_shape(
    tokens: int,
    width: int,
    heads: int,
    dtype: torch.dtype,
    *,
    masked: bool,
    capability: tuple[int, int] = (9, 0),
) -> Constants:
    """Of ``bias_kernel``, as for the forward pass; it loads a window while it works on another."""
    shape = _common(tokens, width, heads, dtype, masked=masked, biased=True, capability=capability)
    # Two windows more ahead would spill in float32 and with 20 channels.
    if shape["BLOCK_D"] == SMALLEST_DOT and dtype != torch.float32:
        return {**shape, "num_stages": 3}
    if capability[0] not in _ROOMY:
        shape["BLOCK_N"] = min(shape["BLOCK_N"], _BLOCK // 2)
    return {**shape, "num_stages": 2}


def layout_shape(tokens: int) -> Constants:
    """Of ``layout_kernel``."""
    stride = aligned_tokens(tokens)
    return {"N": tokens, "STRIDE": stride, "BLOCK": min(stride, _BLOCK_FLOAT32), "num_warps": 4}
