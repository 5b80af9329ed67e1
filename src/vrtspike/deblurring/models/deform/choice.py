"""Whether the alignment runs by our own kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from vrtspike.deblurring.models.deform.agreement import largest_difference
from vrtspike.deblurring.models.deform.guide import guide_kernel_takes
from vrtspike.deblurring.models.deform.kernel import kernel_takes
from vrtspike.deblurring.models.kernel_trust import is_trusted, triton_runs

# Products of float32 in full, without tensor cores, do not fit the registers beside the rest.
_TYPES = (torch.bfloat16, torch.float16)


def by_kernels(x: Tensor, dtype: torch.dtype, groups: int, fan_out: int) -> bool:
    """Whether the kernels run for features and agree with the definition on their device.

    Args:
        x: (B, T, H, W, C), T at least 2.
        dtype: of the products.
        groups: offset groups.
        fan_out: channels of the result.
    """
    return (
        dtype in _TYPES
        # The kernels add gradients in whatever order programs come.
        and not torch.are_deterministic_algorithms_enabled()
        and triton_runs(x.device, dtype)
        and kernel_takes(x, groups, fan_out)
        and guide_kernel_takes(x)
        and is_trusted("deformable alignment", largest_difference, x.device, dtype)
    )
