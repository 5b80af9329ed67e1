"""Gradients of the weights of token layers: sums over all tokens by our own Triton kernel.

A GPU has more multiprocessors than a weight has tiles, so each sums over a share of the tokens; the
shares' sums are added in a fixed order, and the gradient is the same in every run. Most sums are
small: all of a layer are made by one launch of the kernel and one addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from vrtspike.deblurring.models.kernel_launch import on_device_of, precision, tile
from vrtspike.deblurring.models.token_ops.launch import Launch, shares, with_one

# LINES are added at a time: enough to wait for memory a few times only.
WEIGHTS: Launch = MappingProxyType(
    {"BLOCK": 64, "BLOCK_O": 64, "LINES": 32, "num_warps": 4, "num_stages": 2}
)


@dataclass(frozen=True)
class Product:
    """``left^T right``, the gradient of a weight (O, C), and where it is written.

    Attributes:
        left: (B, rows, O).
        right: (B, rows, C) or, with a one after the channels, (B, rows, C + 8). Sums with the one,
            the gradient of a bias, follow after ``O * stride`` numbers.
        length: rows of each sample that count.
        start: place of the first number.
        stride: distance of numbers of neighbouring columns of left.
        column: likewise of right.
    """

    left: Tensor
    right: Tensor
    length: int
    start: int
    stride: int
    column: int = 1

    @property
    def tiles(self) -> int:
        """Programs that together go over the rows once."""
        return -(-self.left.shape[2] // WEIGHTS["BLOCK_O"])

    def constants(self) -> dict[str, int]:
        """As the kernel takes them."""
        return {
            "START": self.start,
            "OUT": self.left.shape[2],
            "WIDTH": self.right.shape[2],
            "STRIDE": self.stride,
            "COLUMN": self.column,
        }

    def lengths(self) -> tuple[int, int, int]:
        """Rows of a sample that count, that left has, and that right has."""
        return self.length, self.left.shape[1], self.right.shape[1]


def summed(
    products: Sequence[Product], lines: Tensor, keep: Tensor | None, channels: int, size: int
) -> Tensor:
    """Gradients of one or two weights, then the sum of some lines, (size + n,) float32.

    Args:
        products: the gradients, of the same samples and type.
        lines: (lines, n) float32.
        keep: (B,) float32; samples where it is 0 do not count in products. None: all do.
        channels: C of the products.
        size: numbers of all gradients; the products fill them.
    """
    from vrtspike.deblurring.models.token_ops.weight_kernels import weights_kernel

    first, last = products[0], products[-1]
    left, width = first.left, lines.shape[1]
    tiles = sum(product.tiles for product in products)
    longest = max(product.length for product in products)
    parts = shares(left.device, tiles, -(-longest // WEIGHTS["BLOCK"]))
    partial = lines.new_empty(parts, size + width)
    with on_device_of(left):
        weights_kernel[(tiles + 1, parts)](
            left,
            first.right,
            last.left,
            last.right,
            left if keep is None else keep,
            lines,
            partial,
            left.shape[0],
            *first.lengths(),
            *last.lengths(),
            lines.shape[0],
            **first.constants(),
            **{f"{name}_B": value for name, value in last.constants().items()},
            TWO=len(products) == 2,
            C=channels,
            BLOCK_C=tile(with_one(channels)),
            N=width,
            BLOCK_N=tile(width),
            LINE=size + width,
            KEEP=keep is not None,
            PRECISION=precision(left.dtype),
            **WEIGHTS,
        )
    return partial.sum(0)
