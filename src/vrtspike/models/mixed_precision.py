"""What stays in float32 under autocast: sums of many terms, and positions.

Under autocast, matrix products are made in a half type: their operands are rounded, their sums are
not. What adds up over blocks, tokens or pyramid levels stays in float32, where a small term is not
lost beside a large sum. ``docs/model.md`` says what that gains.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def autocast_dtype(x: Tensor) -> torch.dtype:
    """The type autocast wants for products, or that of ``x`` outside of autocast."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """A context in which types are what they are, on the device of ``x``."""
    return torch.autocast(x.device.type, enabled=False)


def residual_stream(x: Tensor) -> Tensor:
    """``x`` as blocks add to it: under autocast in float32 or better, else as it is.

    A branch of half precision added to it gives float32 again, so the first sum of a stage decides
    for all of them.
    """
    if not torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))
