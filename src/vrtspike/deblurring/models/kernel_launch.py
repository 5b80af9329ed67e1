"""What all launches of our own Triton kernels have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

SMALLEST_DOT = 16
"""Rows and columns of the smallest matrix product of a program."""


def tile(length: int, least: int = SMALLEST_DOT) -> int:
    """Length of the tile that holds ``length`` values: a power of two.

    >>> [tile(length) for length in (5, 96, 128)]
    [16, 128, 128]
    """
    return max(1 << (length - 1).bit_length(), least)


def precision(dtype: torch.dtype) -> str:
    """Precision of products: a model that asks for float32 wants all its digits."""
    return "ieee" if dtype == torch.float32 else "tf32"


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, wherever the tensors are."""
    return torch.cuda.device_of(tensor)
