"""Small layers that several parts of the model share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrtspike.deblurring.models.kernel_trust import is_counted
from vrtspike.deblurring.models.tap_sums import activated, sum_of_taps
from vrtspike.host_draws import DrawTable


def start_at_zero(layer: nn.Module) -> None:
    """Set all parameters of a layer to zero, so that it starts out giving zero."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


class GEGLU(nn.Module):
    """Gated feed-forward layer over channels: fc2(GELU(fc11(x)) * fc12(x)).

    Source: Shazeer, 2020, "GLU Variants Improve Transformer".

    Args:
        channels: channels of the input.
        hidden: channels of the gate and of the value.
        out: channels of the output; those of the input if not given.
    """

    def __init__(self, channels: int, hidden: int, out: int | None = None) -> None:
        super().__init__()
        self.fc11 = nn.Linear(channels, hidden)
        self.fc12 = nn.Linear(channels, hidden)
        self.fc2 = nn.Linear(hidden, out or channels)

    def forward(self, x: Tensor) -> Tensor:
        """(..., channels) -> (..., out)."""
        return self.fc2(functional.gelu(self.fc11(x)) * self.fc12(x))


class FeedForward(nn.Sequential):
    """Feed-forward layer over channels with GELU.

    Args:
        channels: channels of input and output.
        hidden: channels in between.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    @property
    def first(self) -> nn.Linear:
        """The layer before GELU."""
        return _linear(self[0])

    @property
    def last(self) -> nn.Linear:
        """The layer after it."""
        return _linear(self[2])


def _linear(layer: nn.Module) -> nn.Linear:
    assert isinstance(layer, nn.Linear)
    return layer


class Branch(NamedTuple):
    """What stochastic depth leaves of a residual branch in one pass.

    Attributes:
        factors: (B,) float32 on the device of the features, 0 for a sample that drops the branch.
            None: 1 for all.
        is_dropped: no sample keeps the branch, so that it need not be computed.
    """

    factors: Tensor | None
    is_dropped: bool

    def scaled(self, branch: Tensor) -> Tensor:
        """(B, ...) -> same shape, each sample times its factor."""
        if self.factors is None:
            return branch
        shape = (-1,) + (1,) * (branch.dim() - 1)
        return branch * self.factors.view(shape).to(branch.dtype)


KEPT = Branch(None, False)
"""A branch as it is."""


class DropPath(nn.Module):
    """Stochastic depth of a block: drops its residual branches for whole samples while training.

    Chance is drawn on the CPU, where a branch that nobody keeps can be left out before anything of
    it is launched, and where all devices draw alike.

    Source: Huang et al., 2016, "Deep Networks with Stochastic Depth".

    Args:
        rate: probability of dropping, in [0, 1).

    Attributes:
        draw_table: where factors are read in a pass that is recorded; see
            :mod:`vrtspike.host_draws`.
    """

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.draw_table: DrawTable | None = None

    @property
    def is_active(self) -> bool:
        """Whether there is anything to draw."""
        return self.training and self.rate > 0.0

    def draw(self, samples: int) -> Tensor:
        """(samples,) float32 on the CPU, for one branch: 0 or, where kept, 1 / (1 - rate)."""
        keep = 1.0 - self.rate
        return (torch.rand(samples) < keep).to(torch.float32) / keep

    def extra_repr(self) -> str:
        """The rate, for ``print(model)``."""
        return f"rate={self.rate:.3f}"


BlockBranches = tuple[Branch, Branch]
"""Attention and the feed-forward layer of a block."""
_ALL: BlockBranches = (KEPT, KEPT)


def draw_branches(layers: Sequence[DropPath], x: Tensor) -> list[BlockBranches]:
    """The branches of some blocks in this pass.

    Args:
        layers: stochastic depth of each block.
        x: (B, ...), the features of the first.

    Returns:
        Two for each block. Factors reach the device in one copy that nothing waits for. Where they
        come from a table, the host does not know them and no branch counts as dropped; nor does
        one of tensors without data, with which a step is counted.
    """
    samples = x.shape[0]
    if is_counted():
        factors = x.new_ones(samples, dtype=torch.float32)
        counted = (Branch(factors, False), Branch(factors, False))
        return [counted if layer.is_active else _ALL for layer in layers]
    own = [layer for layer in layers if layer.is_active and layer.draw_table is None]
    drawn = [layer.draw(samples) for layer in own for _ in _ALL]
    sent = iter(_to_device(torch.stack(drawn), x.device) if drawn else ())
    known = iter(drawn)

    def branch(layer: DropPath) -> Branch:
        if not layer.is_active:
            return KEPT
        if layer.draw_table is not None:
            return Branch(layer.draw_table.place(layer.draw, samples), False)
        return Branch(next(sent), not next(known).any())

    return [(branch(layer), branch(layer)) for layer in layers]


def _to_device(values: Tensor, device: torch.device) -> Tensor:
    """A small tensor of the host on a device, without waiting for the device."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class _WithoutGradient(torch.autograd.Function):
    """A tensor as it is; parameters that had no part in it get gradients of zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        ctx.shapes = [p.shape for p in parameters]
        ctx.like = parameters[0].detach()[:0]
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        sizes = [shape.numel() for shape in ctx.shapes]
        parts = ctx.like.new_zeros(sum(sizes)).split(sizes)
        return grad, *(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True))


def skip_branch(x: Tensor, *layers: nn.Module) -> Tensor:
    """``x`` where the branch that ``layers`` make is dropped.

    Their parameters take part in the graph with gradients of zero, as if the branch had been
    computed and multiplied by zero: several processes wait for the gradients of all parameters.
    """
    parameters = [p for layer in layers for p in layer.parameters() if p.requires_grad]
    if not (parameters and torch.is_grad_enabled()):
        return x
    out: Tensor = _WithoutGradient.apply(x, *parameters)
    return out


class SpaceToDepth(nn.Module):
    """(B, T, H, W, C) -> (B, T, H/2, W/2, 4C); neighbours in (column, row) order."""

    def forward(self, x: Tensor) -> Tensor:
        """Stack each 2 x 2 block on the channels, the channel fastest."""
        b, t, h, w, c = x.shape
        x = x.reshape(b, t, h // 2, 2, w // 2, 2, c)
        return x.permute(0, 1, 2, 4, 5, 3, 6).reshape(b, t, h // 2, w // 2, 4 * c)


class DepthToSpace(nn.Module):
    """(B, T, H, W, C) -> (B, T, 2H, 2W, C/4), the inverse of :class:`SpaceToDepth`."""

    def forward(self, x: Tensor) -> Tensor:
        """Spread four groups of channels over a 2 x 2 block."""
        b, t, h, w, c = x.shape
        x = x.reshape(b, t, h, w, 2, 2, c // 4)
        return x.permute(0, 1, 2, 5, 3, 4, 6).reshape(b, t, 2 * h, 2 * w, c // 4)


def activated_conv(layer: nn.Conv2d, x: Tensor, slope: float) -> Tensor:
    """``leaky_relu(layer(x), slope)`` with bias and activation in one pass, channels last.

    Args:
        layer: a convolution with a bias.
        x: (N, C, H, W).
        slope: of negative values.
    """
    assert layer.bias is not None
    assert isinstance(layer.padding, tuple)
    y = functional.conv2d(x, layer.weight, stride=layer.stride, padding=layer.padding)
    return activated(y.permute(0, 2, 3, 1), layer.bias, slope).permute(0, 3, 1, 2)


class FrameConv(nn.Conv3d):
    """3 x 3 convolution of every frame, on channels-last features.

    Its weight keeps the published shape of a three-dimensional convolution of kernel (1, 3, 3);
    the two-dimensional kernels that run it are several times faster on a CPU.

    Args:
        fan_in: channels of the input.
        fan_out: channels of the output.
    """

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, fan_in) -> (B, T, H, W, fan_out)."""
        frames = x.flatten(0, 1).permute(0, 3, 1, 2)
        out = functional.conv2d(frames, self.weight.squeeze(2), self.bias, padding=1)
        return out.permute(0, 2, 3, 1).unflatten(0, x.shape[:2])


class ClipConv(nn.Conv3d):
    """3 x 3 x 3 convolution over time and space, on channels-last features, padded by one.

    It runs as one two-dimensional convolution that makes the three taps in time of every frame,
    and their sum over neighbouring frames: those kernels are better than the three-dimensional
    ones, many times so on a CPU.

    Args:
        fan_in: channels of the input.
        fan_out: channels of the output.
        time_stride: stride along time.
        space_stride: stride along rows and columns.
    """

    def __init__(
        self, fan_in: int, fan_out: int, time_stride: int = 1, space_stride: int = 1
    ) -> None:
        stride = (time_stride, space_stride, space_stride)
        super().__init__(fan_in, fan_out, 3, stride=stride, padding=1)

    def forward(
        self, x: Tensor, residual: Tensor | None = None, *, rectified: bool = False
    ) -> Tensor:
        """(B, T, H, W, fan_in) -> (B, ceil(T / time), ceil(H / space), ..., fan_out).

        ``residual``, of the result's shape, is added to a result of all frames, before negative
        values become 0 if it is to be ``rectified``.
        """
        frames = x.flatten(0, 1).permute(0, 3, 1, 2)
        taps = self.weight.permute(2, 0, 1, 3, 4).flatten(0, 1)
        y = functional.conv2d(frames, taps, stride=self.stride[1], padding=1)
        y = y.permute(0, 2, 3, 1).unflatten(0, x.shape[:2])
        return sum_of_taps(y, self.bias, residual, rectified=rectified)[:, :: self.stride[0]]
