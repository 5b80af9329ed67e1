"""Distance in time, as a bias of attention scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# The slope of the first head and of the last; those between follow a geometric series.
_STEEPEST, _SHALLOWEST = 4.0, 0.5


class RelativeTime(nn.Module):
    """A learned score for each head and time difference: b_h[d] = c_h[d] - m_h |d|.

    Without it attention along time sees a set of frames, not their order, and a frame cannot know
    which spikes are its own. The fixed slopes m_h (4 to 1/2) make every head begin by looking at
    its own frame and let some look further; the correction c_h is learned, starts at zero, and
    keeps its outermost value beyond ``reach``, where the slope goes on: a clip at test time may be
    longer than those of training.

    Sources: a table of relative positions as in Swin (Liu et al., 2021); slopes for lengths never
    seen in training as in ALiBi (Press et al., 2022).

    Args:
        heads: attention heads.
        reach: largest time difference with a learned value of its own, that of a training clip.
    """

    slopes: Tensor

    def __init__(self, heads: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        ratio = (_SHALLOWEST / _STEEPEST) ** (1 / max(heads - 1, 1))
        slopes = torch.tensor([_STEEPEST * ratio**head for head in range(heads)])
        self.register_buffer("slopes", slopes, persistent=False)
        self.correction = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, frames: int) -> Tensor:
        """The bias of a clip of ``frames`` frames: (heads, queries, keys)."""
        time = torch.arange(frames, device=self.slopes.device)
        difference = time[None, :] - time[:, None]
        learned = self.correction[:, difference.clamp(-self.reach, self.reach) + self.reach]
        return learned - self.slopes[:, None, None] * difference.abs()

    def extra_repr(self) -> str:
        """The sizes, for ``print(model)``."""
        return f"heads={len(self.slopes)}, reach={self.reach}"
