"""Channel attention of NAF blocks, from means over the picture or over windows of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def local_mean(x: Tensor, cell: int) -> Tensor:
    """Return means over windows of up to 3 x 3 cells.

    Windows end at the border of the features; all values of a window have the same weight.

    Args:
        x: features, (N, C, H, W).
        cell: side of a cell; windows overlap by two cells.

    Returns:
        (N, C, H / cell, W / cell), rounded up.
    """
    rows, columns = x.shape[-2:]
    # An exported network must not depend on the sizes of its example.
    if not torch.compiler.is_exporting() and rows % cell == columns % cell == 0:
        cells = functional.avg_pool2d(x, cell)
        return functional.avg_pool2d(cells, 3, stride=1, padding=1, count_include_pad=False)
    missing = (0, -columns % cell, 0, -rows % cell)

    def window_sums(values: Tensor) -> Tensor:
        cells = functional.avg_pool2d(functional.pad(values, missing), cell)
        return functional.avg_pool2d(cells, 3, stride=1, padding=1)

    return window_sums(x) / window_sums(torch.ones_like(x[:1, :1]))


class ChannelAttention(nn.Conv2d):
    """Simplified channel attention: channels times a linear function of their means.

    The means are those of the whole picture or of windows. With windows, a network that was trained
    on crops gets means of as many pixels as in training (Chu et al., "Improving Image Restoration
    by Revisiting Global Information Aggregation", ECCV 2022).

    Args:
        channels: feature channels.
        cell: side in pixels of the cells of :func:`local_mean`; 0 for the whole picture.
    """

    def __init__(self, channels: int, cell: int = 0) -> None:
        super().__init__(channels, channels, 1)
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> same shape."""
        if self._has_one_window(x):
            return x * super().forward(x.mean(dim=(2, 3), keepdim=True))
        weights = super().forward(local_mean(x, self.cell))
        enlarged = functional.interpolate(weights, scale_factor=self.cell, mode="bilinear")
        return x * enlarged[..., : x.shape[-2], : x.shape[-1]]

    def _has_one_window(self, x: Tensor) -> bool:
        """Tell whether the windows of all cells are the whole picture, as of training crops."""
        if not self.cell:
            return True
        # An exported network must not depend on the sizes of its example.
        return not torch.compiler.is_exporting() and max(x.shape[-2:]) <= 2 * self.cell
