"""What all launches of our Triton kernels of token layers have in common, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch

Launch = Mapping[str, int]
"""Sizes of the blocks that a program treats, its warps, and the stages of its pipeline."""

# Channels of a row, with one more: wider tiles do not fit into the registers of a program.
_WIDEST_TILE = 128
# A product of half types wants rows of a multiple of 16 bytes.
_ALIGNED = 8
_PROCESSORS_CPU = 4  # for the interpreter


def fits(channels: int) -> bool:
    """Whether the kernels take rows of that many channels."""
    return channels % _ALIGNED == 0 and with_one(channels) <= _WIDEST_TILE


def with_one(channels: int) -> int:
    """Width of rows that hold a one after their channels."""
    return channels + _ALIGNED


def is_large(device: torch.device) -> bool:
    """Whether a program has more than the 99 KiB of shared memory of smaller GPUs to itself."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] in (9, 10)


def has_room(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a program has room for a projection and the feed-forward layer after it.

    It has not for products of float32, nor on smaller GPUs. The interpreter has.
    """
    return dtype != torch.float32 and (device.type != "cuda" or is_large(device))


def shares(device: torch.device, programs: int, blocks: int) -> int:
    """Parts that a sum over ``blocks`` blocks is made of.

    Args:
        device: where it is made.
        programs: that work on each part; all of them together fill the GPU once.
        blocks: of rows, of which each part gets some.
    """
    return max(1, min(_processors(device) // programs, blocks))


@lru_cache(maxsize=8)
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return _PROCESSORS_CPU
    return torch.cuda.get_device_properties(device).multi_processor_count
