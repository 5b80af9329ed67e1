"""Types under autocast: sums of many terms and positions stay in float32.

Under autocast, matrix products are computed in a half type: their operands are rounded, their sums
are not. Sums over blocks, tokens or pyramid levels stay in float32, so that a small term is not
lost in a large sum. ``docs/experiments.md`` has the gain.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def autocast_dtype(x: Tensor) -> torch.dtype:
    """Return the type of products under autocast, or that of ``x`` outside of autocast."""
    device = x.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of ``x``."""
    return torch.autocast(x.device.type, enabled=False)


def residual_stream(x: Tensor) -> Tensor:
    """Return the input of a stage's residual sums, under autocast in float32 or better.

    Without autocast it is returned unchanged.

    A branch of half precision added to it gives float32 again, so the first sum of a stage decides
    the type of all of them.
    """
    if not torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))
