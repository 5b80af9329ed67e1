"""Refuses operations for which the host would wait for a GPU; needs none, tensors have no data."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vrtspike.deblurring.models.ops.window_attention import windows

GPU = torch.device("cuda", 0)

_WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal"}
"""Operations whose result, or its size, the host must know."""


class StallError(AssertionError):
    """The host would wait here."""


class NoStalls(TorchDispatchMode):
    """Counts copies to the device that do not wait and refuses whatever does.

    Args:
        refusing: false lets everything pass, for a first pass.
    """

    def __init__(self, *, refusing: bool = True) -> None:
        super().__init__()
        self.refusing = refusing
        self.copies = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if name in _WAITING or (name.startswith("index") and _has_mask(args[1])):
            self._refuse(f"{name}: the host needs its result")
        if "grid_sampler" in name:  # the one kernel that cannot do without data
            return args[0].new_empty(*args[0].shape[:2], *args[1].shape[1:3])
        found = func(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]
        if name in ("_to_copy", "copy_") and len({t.device.type for t in given + results}) > 1:
            waits = args[2:3] != (True,) and not kwargs.get("non_blocking")
            if waits or results[0].device.type == "cpu":
                self._refuse(f"{name}: a copy between host and device that the host waits for")
            self.copies += 1
        return found

    def _refuse(self, fault: str) -> None:
        if self.refusing:
            raise StallError(fault)


def _has_mask(indices: Any) -> bool:
    return any(
        isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
        for index in tree_leaves(indices)
    )


@contextmanager
def without_data() -> Iterator[None]:
    """Tensors without data on any device; autocast and window plans as on a real one."""
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode():
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        patch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
        patch.setattr(windows, "build_plan", functools.cache(windows.build_plan))
        yield
