"""Stochastic depth: residual branches that are dropped at random for whole samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor


class StochasticDepth(nn.Module):
    """Factors of all residual branches of a network in one pass (Huang et al., 2016).

    They are drawn at once by PyTorch's generator of the CPU, so that all devices draw alike, and
    are always data that kernels read: a dropped branch is launched like any other.

    Source: Huang et al., 2016, "Deep Networks with Stochastic Depth".

    Args:
        rates: for each block, the probability of dropping a branch, in [0, 1).

    Raises:
        ValueError: if a rate is not in [0, 1).

    Example:
        >>> StochasticDepth([0.0, 0.5])(torch.ones(3, 7)).shape  # 3 samples
        torch.Size([2, 2, 3])
    """

    def __init__(self, rates: Sequence[float]) -> None:
        super().__init__()
        if not all(0.0 <= rate < 1.0 for rate in rates):
            raise ValueError(f"rates of stochastic depth are in [0, 1), not {list(rates)}")
        self.rates = tuple(rates)

    def forward(self, x: Tensor) -> Tensor | None:
        """The factors of one pass.

        Args:
            x: (B, ...), any features of the pass: their batch size and device are read.

        Returns:
            float32 (blocks, 2, B) on the device of ``x``, for attention (0) and the feed-forward
            layer (1) of each block: 0 where a sample drops the branch, else 1 / (1 - rate). None
            if nothing is dropped, because of evaluation mode or because all rates are 0.
        """
        if not self.training or not any(self.rates):
            return None
        shape = (len(self.rates), 2, x.shape[0])
        if isinstance(x, FakeTensor):  # a step is counted, not run
            return torch.ones(shape, dtype=torch.float32, device=x.device)
        return self._draw(x.shape[0], x.device).to(x.device, non_blocking=True)

    def _draw(self, samples: int, device: torch.device) -> Tensor:
        """(blocks, 2, samples) float32 on the CPU, page-locked on the way to a CUDA device."""
        kept = 1.0 - torch.tensor(self.rates, dtype=torch.float32).view(-1, 1, 1)
        factors = (torch.rand(len(self.rates), 2, samples, dtype=torch.float32) < kept) / kept
        # From pageable memory a copy to the device would wait for it.
        return factors.pin_memory() if device.type == "cuda" else factors


def with_kept_samples(
    layer: Callable[..., Tensor], x: Tensor, *arguments: object, keep: Tensor | None
) -> Tensor:
    """``layer(x, *arguments, keep)``; on a CPU of those samples alone that keep the branch.

    Elsewhere the host would have to wait for the factors, and kernels leave out samples themselves.

    Args:
        layer: adds a residual branch to (B, ...), times the factor of each sample.
        x: (B, ...).
        arguments: the same for all samples.
        keep: (B,) factors of :class:`StochasticDepth`, or None.

    Returns:
        (B, ...); the samples of factor 0 are those of ``x``.
    """
    is_known = type(keep) is Tensor and keep.device.type == "cpu"
    if keep is None or not is_known or torch.compiler.is_compiling() or keep.all():
        return layer(x, *arguments, keep)
    kept = keep.nonzero().flatten()
    return x.index_copy(0, kept, layer(x[kept], *arguments, keep[kept]))
