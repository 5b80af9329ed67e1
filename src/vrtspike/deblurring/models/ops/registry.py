"""The operations that have kernels of their own."""

from __future__ import annotations

import torch

from vrtspike.deblurring.models.ops import deform_conv, feed_forward, projections, window_attention
from vrtspike.deblurring.models.ops.dispatch import Compute, Operation, obstacle, refusal
from vrtspike.deblurring.models.ops.window_attention import choose_implementation

OPERATIONS: tuple[Operation, ...] = (
    window_attention.OPERATION,
    projections.OPERATION,
    feed_forward.OPERATION,
    deform_conv.OPERATION,
)


def describe_operations(compute: Compute, device: torch.device, dtype: torch.dtype) -> str:
    """What computes each operation on a device, in one line for a log.

    >>> describe_operations(Compute(), torch.device("cpu"), torch.float32)[:27]
    'window_attention: recompute'
    """
    name = choose_implementation(compute, torch.empty(0, device=device), dtype)
    found = [f"{window_attention.OPERATION.name}: {name}"]
    for operation in OPERATIONS[1:]:
        reason = obstacle(operation.name, device, dtype, compute)
        reason = reason or refusal(operation, device, dtype)
        found.append(f"{operation.name}: {f'PyTorch ({reason})' if reason else 'own kernel'}")
    return ", ".join(found)
