"""Whether layer norms run as our own kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vrtspike.deblurring.models.kernel_trust import is_trusted, triton_runs
from vrtspike.deblurring.models.norms.agreement import largest_difference
from vrtspike.deblurring.models.norms.definition import defined_norm
from vrtspike.deblurring.models.norms.triton_norms import WIDEST, triton_norm


def normalised(
    x: Tensor,
    norm: nn.LayerNorm,
    dtype: torch.dtype,
    beside: Tensor | None = None,
    *,
    folded: bool = False,
) -> tuple[Tensor, Tensor]:
    """``norm(x)`` in a type, other channels beside it.

    Args:
        x: (B, T, ..., C).
        norm: layer norm over the channels with the default epsilon.
        dtype: of the result.
        beside: (B, T, ..., C), or None.
        folded: whether each 2 x 2 block of ``x`` (B, T, H, W, C) is stacked on the channels before
            it is normalised, as by :class:`SpaceToDepth`.

    Returns:
        ``x`` itself, whose gradient own kernels add to that of the norm; and the normalised
        channels followed by those of ``beside``, (B, T, ..., C), 2C or, if folded, 4C.

    Raises:
        ValueError: to be folded, with an odd height or width, or with something beside.
    """
    given = (x, norm.weight, norm.bias, beside, dtype)
    # One of the two types may be narrower than float32, and is the one that kernels are tried in.
    narrow = dtype if x.dtype == torch.float32 else x.dtype
    known = dtype in (torch.float32, narrow)
    if folded and (beside is not None or any(side % 2 for side in x.shape[-3:-1])):
        raise ValueError(f"2 x 2 blocks alone are folded; got {tuple(x.shape)}")
    if known and norm.weight.numel() <= WIDEST and _is_trusted(x.device, narrow):
        return triton_norm(*given, folded=folded)
    return defined_norm(*given, folded=folded)


@torch.compiler.assume_constant_result
def _is_trusted(device: torch.device, dtype: torch.dtype) -> bool:
    return triton_runs(device, dtype) and is_trusted(
        "own kernels of layer norms", largest_difference, device, dtype
    )
