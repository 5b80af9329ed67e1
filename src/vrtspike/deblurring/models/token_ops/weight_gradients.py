"""Gradients of the weights of token layers: sums over all tokens by our own Triton kernel.

A GPU has more multiprocessors than a weight has tiles, so each sums over a share of the tokens; the
shares' sums are added in a fixed order, and the gradient is the same in every run.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision, tile
from vrtspike.deblurring.models.token_ops.launch import Launch, shares, with_one

WEIGHTS: Launch = MappingProxyType({"BLOCK": 64, "BLOCK_O": 64, "num_warps": 4, "num_stages": 2})


def summed_weights(
    left: Tensor, right: Tensor, keep: Tensor | None, length: int, channels: int
) -> Tensor:
    """Flat gradients of a weight (O, C) and its bias, float32.

    Args:
        left: (B, rows, O), the gradient of the layer's result.
        right: (B, rows, C + 8), the layer's input and a one.
        keep: (B,) float32; samples where it is 0 do not count. None: all do.
        length: rows of each sample that count.
        channels: C.
    """
    outputs = left.shape[2]
    partial = lines(left, length, outputs * channels + outputs)
    sum_weights(left, right, keep, partial, length, channels=channels, stride=channels)
    return partial.sum(0)


def lines(left: Tensor, length: int, width: int) -> Tensor:
    """(shares, width) float32, a line for each share of the rows."""
    tiles = -(-left.shape[2] // WEIGHTS["BLOCK_O"])
    parts = shares(left.device, tiles, -(-length // WEIGHTS["BLOCK"]))
    return left.new_empty(parts, width, dtype=torch.float32)


def sum_weights(
    left: Tensor,
    right: Tensor,
    keep: Tensor | None,
    partial: Tensor,
    length: int,
    *,
    stride: int,
    column: int = 1,
    channels: int | None = None,
) -> None:
    """Fill a line of ``partial`` for each share with what it adds to ``left^T right``.

    Args:
        left: (B, rows, O).
        right: (B, rows, C) or, with a one after the channels, (B, rows, C + 8).
        keep: of :func:`summed_weights`.
        partial: of :func:`lines`, or all of its columns from some on.
        length: rows of each sample that count.
        stride: distance in a line of numbers of neighbouring columns of left.
        column: likewise of right.
        channels: C; that of right if not given. Sums with the one follow after ``O * stride``.
    """
    from vrtspike.deblurring.models.token_ops.weight_kernels import weights_kernel

    outputs, width = left.shape[2], right.shape[2]
    channels = channels or width
    with on_device_of(left):
        weights_kernel[(-(-outputs // WEIGHTS["BLOCK_O"]), partial.shape[0])](
            left,
            right,
            left if keep is None else keep,
            partial,
            left.shape[0],
            length,
            left.shape[1],
            right.shape[1],
            OUT=outputs,
            C=channels,
            WIDTH=width,
            BLOCK_C=tile(with_one(channels)),
            STRIDE=stride,
            COLUMN=column,
            LINE=partial.stride(0),
            KEEP=keep is not None,
            PRECISION=precision(left.dtype),
            **WEIGHTS,
        )
