"""Blocks and warps of the Triton kernels, so that nothing is spilled from registers.

A tile of 64 x 64 scores of four warps was best by the instructions of the compiled code
(``benchmarks/kernel_code.py``); ``test_kernels_of_a_step.py`` holds registers and shared memory
of every variant that the presets use.
"""

from __future__ import annotations

from typing import NamedTuple

from vrtspike.deblurring.models.ops.launch import (
    SMALLEST_DOT,
    Options,
    has_products_from_shared_memory,
    tile,
)
from vrtspike.deblurring.models.ops.window_attention.windows import aligned_tokens

_BLOCK = 64
# Numbers of keys and values in half precision that are held at once: 384 tokens x (32 + 32).
_MOST_HELD = 384 * 64


class Problem(NamedTuple):
    """What decides the options of a launch, beside whether it looks at regions.

    Attributes:
        tokens: of a window.
        width: channels of a head.
        heads: how many there are.
        biased: whether scores have a bias.
        capability: compute capability of the GPU.
    """

    tokens: int
    width: int
    heads: int
    biased: bool
    capability: tuple[int, int] = (9, 0)


def _common(of: Problem, *, masked: bool) -> Options:
    block = min(tile(of.tokens), _BLOCK)
    return {
        "N": of.tokens,
        "STRIDE": aligned_tokens(of.tokens),
        "HEADS": of.heads,
        "D": of.width,
        "BLOCK_D": tile(of.width),
        "BLOCK_M": block,
        "BLOCK_N": block,
        "HAS_BIAS": of.biased,
        "BY_PRODUCT": of.biased
        and block == _BLOCK
        and has_products_from_shared_memory(of.capability),
        "MASKED": masked,
        "num_warps": block // SMALLEST_DOT,
        "num_stages": 1,
    }


def forward_options(of: Problem, *, masked: bool) -> Options:
    """Of ``forward_kernel``, which looks at regions if ``masked``."""
    options = _common(of, masked=masked)
    # A column more costs less than adding every weight.
    return {**options, "BLOCK_N": _most_keys(of, options), "BLOCK_V": tile(of.width + 1)}


def _most_keys(of: Problem, options: Options) -> int:
    """Keys of a tile of scores: all of a window of up to 128, where registers hold the tile.

    What is prepared for the queries of a tile is then prepared once, not once for each half.
    """
    keys = tile(of.tokens)
    fits = has_products_from_shared_memory(of.capability) and options["BLOCK_D"] == SMALLEST_DOT
    return keys if fits and keys == 2 * _BLOCK else int(options["BLOCK_N"])


def holds_keys(tokens: int, width: int) -> bool:
    """Whether a program can hold the keys and values of a head of a window."""
    return aligned_tokens(tokens) * (tile(width) + tile(width + 1)) <= _MOST_HELD


def gradient_options(of: Problem, *, masked: bool) -> Options:
    """Of ``gradient_kernel``, likewise."""
    options = _common(of, masked=masked)
    blocks = -(-of.tokens // options["BLOCK_M"])
    groups = -(-blocks // _most_blocks(of, options["BLOCK_D"], blocks, masked=masked))
    return {**options, "GROUP": -(-blocks // groups)}


def _most_blocks(of: Problem, padded_width: int, blocks: int, *, masked: bool) -> int:
    """Blocks of queries whose gradients fit into the registers of a program, without a spill."""
    major = of.capability[0]
    if padded_width > 2 * SMALLEST_DOT:
        return 1
    if padded_width > SMALLEST_DOT:
        if not has_products_from_shared_memory(of.capability):
            return 1
        return 2 if masked or blocks > 5 else 3
    if has_products_from_shared_memory(of.capability):
        # For three the assembler for 10.x settles on half of the registers, which do not suffice,
        # nor do they for four with masks.
        few = (major, blocks) == (10, 3) or (masked and (major, blocks) == (10, 4))
        return 2 if few else 6
    # The assembler finds registers for all of five, but for none of three, four or six.
    return (3 if masked else 5) if blocks == 5 else 2


def bias_options(of: Problem, *, masked: bool) -> Options:
    """Of ``bias_kernel``, likewise; it loads a window while it works on another."""
    options = _common(of, masked=masked)
    options["BLOCK_N"] = _most_keys(of, options)
    # Two windows more ahead would spill with 20 channels, or with twice the keys.
    if options["BLOCK_D"] == SMALLEST_DOT and options["BLOCK_N"] <= _BLOCK:
        return {**options, "num_stages": 3}
    if not has_products_from_shared_memory(of.capability):
        options["BLOCK_N"] = min(options["BLOCK_N"], _BLOCK // 2)
    return {**options, "num_stages": 2}


def bias_warps(options: Options) -> int:
    """Warps of ``bias_kernel`` for each multiprocessor, three times what runs at once.

    Each program writes what it has summed: fewer do so where fewer run at once.
    """
    return 24 if options["BLOCK_N"] > _BLOCK else 48


def packing_options(tokens: int) -> Options:
    """Of ``packing_kernel``."""
    stride = aligned_tokens(tokens)
    return {"N": tokens, "STRIDE": stride, "BLOCK": min(stride, _BLOCK // 2), "num_warps": 4}
