"""Batches on their way from a worker process, in shared memory that is used again and again.

The data loader of torch puts every tensor of every batch into fresh shared memory. The pages of
that memory, which the operating system has to clear and map for each batch, cost a worker about as
much as reading the sample. Here a worker keeps its blocks of shared memory, puts all tensors of a
batch into one of them and sends only its handle. The first byte of a block says whether it is in
use; the receiving process clears it once nothing refers to the block's tensors any more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils.data import default_collate, get_worker_info

_ALIGNMENT = 64
"""Tensors begin at multiples of this many bytes; the first such stretch is the block's own."""

_Place: TypeAlias = tuple[str, int, torch.dtype, tuple[int, ...]]
"""Name of a tensor, its first byte after the block's own stretch, its type and shape."""


class Parcels:
    """Collates samples like torch's ``default_collate``, in workers into reused shared memory."""

    def __init__(self) -> None:
        self._blocks: list[torch.Tensor] = []

    def __call__(self, samples: Sequence[Any]) -> Any:  # noqa: ANN401 - any samples
        """Collate; samples other than mappings are left to torch altogether."""
        first = samples[0]
        if get_worker_info() is None or not isinstance(first, Mapping):
            return default_collate(list(samples))
        others: dict[str, Any] = {}
        places: list[_Place] = []
        size = 0
        for name, value in first.items():
            if isinstance(value, torch.Tensor):
                shape = (len(samples), *value.shape)
                places.append((name, size, value.dtype, shape))
                size += -(-len(samples) * value.nbytes // _ALIGNMENT) * _ALIGNMENT
            else:
                others[name] = default_collate([sample[name] for sample in samples])
        if not places:
            return others
        block = self._free_block(size)
        block[0] = 1
        targets = _tensors(block[_ALIGNMENT:], places)
        for name, target in targets.items():
            torch.stack([sample[name] for sample in samples], out=target)
        return _Parcel(block, places, others, tuple(first))

    def _free_block(self, size: int) -> torch.Tensor:
        """A block for ``size`` bytes that nobody uses."""
        for block in self._blocks:
            if block[0] == 0 and len(block) >= _ALIGNMENT + size:
                return block
        # Blocks that became too small are not kept beside the ones that replace them.
        self._blocks = [block for block in self._blocks if len(block) >= _ALIGNMENT + size]
        self._blocks.append(torch.zeros(_ALIGNMENT + size, dtype=torch.uint8).share_memory_())
        return self._blocks[-1]


@dataclass(frozen=True)
class _Parcel:
    """A batch in the worker; what arrives in the other process is a plain dictionary."""

    block: torch.Tensor
    places: list[_Place]
    others: dict[str, Any]
    order: tuple[str, ...]

    def __reduce__(self) -> tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]:
        return _receive, (self.block, self.places, self.others, self.order)


def _receive(
    block: torch.Tensor, places: list[_Place], others: dict[str, Any], order: tuple[str, ...]
) -> dict[str, Any]:
    """The batch of a block, which becomes free when the last of these tensors is gone."""
    memory = block.numpy()
    # This very array is what torch keeps alive for as long as any tensor uses its memory.
    contents = memory[_ALIGNMENT:]
    weakref.finalize(contents, memory[:1].fill, 0).atexit = False
    batch = {**others, **_tensors(torch.from_numpy(contents), places)}
    return {name: batch[name] for name in order}


def _tensors(contents: torch.Tensor, places: Sequence[_Place]) -> dict[str, torch.Tensor]:
    found = {}
    for name, start, dtype, shape in places:
        size = torch.Size(shape).numel() * dtype.itemsize
        found[name] = contents[start : start + size].view(dtype).view(shape)
    return found
