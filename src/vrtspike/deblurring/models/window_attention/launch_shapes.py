"""Blocks and warps of the Triton kernels, chosen by counting the instructions of compiled code.

``benchmarks/kernel_code.py`` compiles and counts; ``test_attention_code.py`` holds what it found
for every variant that the presets use. A tile of 64 x 64 scores of four warps is best in half
precision; float32, whose products take no tensor cores, needs smaller ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from vrtspike.deblurring.models.kernel_launch import SMALLEST_DOT, precision, tile
from vrtspike.deblurring.models.windows import aligned_tokens

Constants = dict[str, Any]
"""Compile-time constants and launch options of a kernel, by name."""

_BLOCK, _BLOCK_FLOAT32 = 64, 32
# Numbers of keys and values in half precision that are held at once: 384 tokens x (32 + 32).
_MOST_HELD = 384 * 64
# Products from registers to registers (8.x, 12.x) leave less room than those from shared memory.
_ROOMY = (9, 10)


class Problem(NamedTuple):
    """What decides the shape of a launch, beside whether it looks at regions.

    Attributes:
        tokens: of a window.
        width: channels of a head.
        heads: how many there are.
        dtype: of queries, keys and values.
        biased: whether scores have a bias.
        capability: compute capability of the GPU.
        many: whether there are windows enough to fill the GPU with a program for each.
    """

    tokens: int
    width: int
    heads: int
    dtype: torch.dtype
    biased: bool
    capability: tuple[int, int] = (9, 0)
    many: bool = True


def _common(of: Problem, *, masked: bool) -> Constants:
    half = of.dtype != torch.float32
    block = min(tile(of.tokens), _BLOCK if half else _BLOCK_FLOAT32)
    return {
        "N": of.tokens,
        "STRIDE": aligned_tokens(of.tokens),
        "HEADS": of.heads,
        "D": of.width,
        "BLOCK_D": tile(of.width),
        "BLOCK_M": block,
        "BLOCK_N": block,
        "HAS_BIAS": of.biased,
        # Of 64 rows each: the products of 9.0 and 10.x.
        "BY_PRODUCT": of.biased and half and block == _BLOCK and of.capability[0] in _ROOMY,
        "MASKED": masked,
        "PRECISION": precision(of.dtype),
        "num_warps": block // SMALLEST_DOT if half else block // SMALLEST_DOT * 2,
        "num_stages": 1,
    }


def forward_shape(of: Problem, *, masked: bool) -> Constants:
    """Of ``forward_kernel`` or ``whole_kernel``, which look at regions if ``masked``."""
    shape = _common(of, masked=masked)
    half = of.dtype != torch.float32
    # In half precision a column more costs less than adding every weight.
    shape["BLOCK_V"] = tile(of.width + 1) if half else tile(of.width)
    if holds_keys(of):
        return {**shape, "RUNNING": masked or of.capability[0] not in _ROOMY}
    return {**shape, "ALL_HEADS": _has_all_heads(of, shape["BLOCK_M"])}


def _has_all_heads(of: Problem, block: int) -> bool:
    """Whether a program has all heads of its window, and looks up once where tokens are."""
    return of.many and of.tokens <= block


def holds_keys(of: Problem) -> bool:
    """Whether a program has all queries of a head of a window, and holds its keys and values.

    It needs more than one block of them, each a product by itself.
    """
    if of.dtype == torch.float32:
        return False
    widths = tile(of.width) + tile(of.width + 1)
    return of.tokens > _BLOCK and aligned_tokens(of.tokens) * widths <= _MOST_HELD


def is_joint(of: Problem) -> bool:
    """Whether ``joint_kernel`` makes all gradients, whose registers hold that of the bias, too."""
    block, width = tile(of.tokens), tile(of.width)
    if not of.biased or of.dtype == torch.float32 or width > 2 * SMALLEST_DOT:
        return False
    if of.capability[0] not in _ROOMY:
        return block < _BLOCK
    # Of twice as many tokens three tiles leave room for little else, and on 10.x for less.
    return block <= _BLOCK or (of.capability[0], block, width) == (9, 2 * _BLOCK, SMALLEST_DOT)


def joint_shape(of: Problem, *, masked: bool) -> Constants:
    """Of ``joint_kernel``, likewise."""
    shape = _common(of, masked=masked)
    del shape["BLOCK_M"], shape["BLOCK_N"]
    block = tile(of.tokens)
    # Eight warps have a multiprocessor for themselves: none other computes while they load.
    stages = 2 if block > _BLOCK else 1
    return {**shape, "BLOCK": block, "num_warps": block // SMALLEST_DOT, "num_stages": stages}


def gradient_shape(of: Problem, *, masked: bool) -> Constants:
    """Of ``gradient_kernel``, likewise."""
    shape = _common(of, masked=masked)
    blocks = -(-of.tokens // shape["BLOCK_M"])
    groups = -(-blocks // _most_blocks(of, shape["BLOCK_D"], blocks, masked=masked))
    every = _has_all_heads(of, shape["BLOCK_M"])
    return {**shape, "GROUP": -(-blocks // groups), "ALL_HEADS": every}


def _most_blocks(of: Problem, padded_width: int, blocks: int, *, masked: bool) -> int:
    """Blocks of queries whose gradients fit into the registers of a program, without a spill."""
    major = of.capability[0]
    if of.dtype == torch.float32 or padded_width > 2 * SMALLEST_DOT:
        return 1
    if padded_width > SMALLEST_DOT:
        if major not in _ROOMY:
            return 1
        return 2 if masked or blocks > 5 else 3
    if major in _ROOMY:
        # For three the assembler for 10.x settles on half of the registers, which do not suffice,
        # nor do they for four with masks.
        few = (major, blocks) == (10, 3) or (masked and (major, blocks) == (10, 4))
        return 2 if few else 6
    # The assembler finds room for all of five, but for none of three, four or six without a spill.
    return (3 if masked else 5) if blocks == 5 else 2


def bias_shape(of: Problem, *, masked: bool) -> Constants:
    """Of ``bias_kernel``, likewise; it loads a window while it works on another."""
    shape = _common(of, masked=masked)
    # Two windows more ahead would spill in float32 and with 20 channels.
    if shape["BLOCK_D"] == SMALLEST_DOT and of.dtype != torch.float32:
        return {**shape, "num_stages": 3}
    if of.capability[0] not in _ROOMY:
        shape["BLOCK_N"] = min(shape["BLOCK_N"], _BLOCK // 2)
    return {**shape, "num_stages": 2}


def layout_shape(tokens: int) -> Constants:
    """Of ``layout_kernel``."""
    stride = aligned_tokens(tokens)
    return {"N": tokens, "STRIDE": stride, "BLOCK": min(stride, _BLOCK_FLOAT32), "num_warps": 4}
