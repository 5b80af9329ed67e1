"""Frames beside their neighbours, as the alignment takes and returns them."""

from __future__ import annotations

import torch
from torch import Tensor


def neighbours(x: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of frames: first each one with its next, then each one with its previous one.

    Args:
        x: (B, T, H, W, C), T at least 2.

    Returns:
        The neighbours and the frames themselves, (2 * B * (T - 1), H, W, C) each.
    """
    early, late = x[:, :-1], x[:, 1:]
    return torch.cat((late, early)).flatten(0, 1), torch.cat((early, late)).flatten(0, 1)


def beside_frames(aligned: Tensor, frames: int) -> Tensor:
    """What was made of all neighbours, at their frames.

    Args:
        aligned: (2 * B * (T - 1), H, W, C), in the order of :func:`neighbours`.
        frames: T.

    Returns:
        (B, T, H, W, 2C): of the next frame and of the previous one; zeros where there is none.
    """
    later, earlier = aligned.unflatten(0, (2, -1, frames - 1))
    edge = torch.zeros_like(later[:, :1])
    return torch.cat((torch.cat((later, edge), dim=1), torch.cat((edge, earlier), dim=1)), dim=-1)
