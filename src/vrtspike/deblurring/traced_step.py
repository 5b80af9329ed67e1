"""Memory of a step that is traced on tensors without data."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveStorages:
    """Bytes of the storages of tensors that are alive, and the most there were.

    Attributes:
        now: bytes of those alive.
        peak: the most there were.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self.now = self.peak = 0

    def add(self, tensor: Tensor) -> None:
        """Count a tensor's storage, once, until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


class StorageCounter(TorchDispatchMode):
    """Counts the storages that operations make while it is entered.

    Attributes:
        storages: those alive, and the most there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.storages = LiveStorages()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and note what it returns."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self.storages.add(tensor)
        return found
