"""Small layers that several parts of the models share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from vrtspike.system.rounding import round_up

Output = TypeVar("Output")


def recomputed(is_on: bool, function: Callable[..., Output], *arguments: object) -> Output:
    """Call a function; if ``is_on``, keep only its arguments, and recompute it for the gradient."""
    if not (is_on and torch.is_grad_enabled()):
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False)


class RecomputedModule(nn.Module):
    """A module that keeps only its positional arguments for the backward pass if ``recompute``."""

    recompute = False

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - those of forward
        """Call the module."""
        return recomputed(self.recompute, super().__call__, *arguments)


def zero_init(layer: nn.Module) -> None:
    """Set all parameters of a layer to zero, so that it starts out giving zero."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)


class DropPath(nn.Module):
    """Stochastic depth: drops a residual branch at random for whole samples in training.

    Kept branches are divided by the probability of keeping them.

    Source: Huang et al., 2016, "Deep Networks with Stochastic Depth".

    Args:
        rate: probability of dropping the branch, in [0, 1).
    """

    kept: Tensor

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.drops = rate > 0
        # A tensor, so that torch.compile makes one graph for all rates.
        self.register_buffer("kept", torch.tensor(1 - rate), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> same shape."""
        if not self.training or not self.drops:
            return x
        per_sample = (len(x),) + (1,) * (x.dim() - 1)
        scale = torch.bernoulli(self.kept.expand(per_sample)).div_(self.kept)
        return x * scale.to(x.dtype)


class GEGLU(RecomputedModule):
    """fc2(GELU(fc11(x)) * fc12(x)) over channels, fc11 and fc12 as one product.

    Source: Shazeer, 2020, "GLU Variants Improve Transformer".

    Args:
        channels: channels of the input.
        hidden: channels of the gate and of the value.
        out_channels: channels of the output.
    """

    def __init__(self, channels: int, hidden: int, out_channels: int) -> None:
        super().__init__()
        self.fc11 = nn.Linear(channels, hidden)
        self.fc12 = nn.Linear(channels, hidden)
        self.fc2 = nn.Linear(hidden, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """(..., channels) -> (..., out_channels)."""
        weight = torch.cat((self.fc11.weight, self.fc12.weight))
        bias = torch.cat((self.fc11.bias, self.fc12.bias))
        gate, value = functional.linear(x, weight, bias).chunk(2, dim=-1)
        return self.fc2(functional.gelu(gate) * value)


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


class FrameConv2d(nn.Conv3d):
    """3 x 3 convolution of every frame, on channels-last features.

    The weight has the published shape of a three-dimensional convolution of kernel (1, 3, 3); it
    runs as a two-dimensional one, which is several times faster on a CPU.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, (1, 3, 3), padding=(0, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, in_channels) -> (B, T, H, W, out_channels)."""
        frames = x.flatten(0, 1).permute(0, 3, 1, 2)
        out = functional.conv2d(frames, self.weight.squeeze(2), self.bias, padding=1)
        return out.permute(0, 2, 3, 1).unflatten(0, x.shape[:2])


class Conv3dAs2d(nn.Conv3d):
    """3 x 3 x 3 convolution over time and space, on channels-last features, padded by one.

    The convolution is computed as a two-dimensional one, which gives the three taps in time of
    every frame, and a sum of taps over neighbouring frames. On GPUs this is faster than
    three-dimensional kernels, on CPUs many times faster.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        stride: along rows and columns.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, 3, stride=(1, stride, stride), padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H, W, in_channels) -> (B, T, ceil(H / stride), ceil(W / stride), out_channels)."""
        frames = x.flatten(0, 1).permute(0, 3, 1, 2)
        taps = self.weight.permute(2, 0, 1, 3, 4).flatten(0, 1)
        y = functional.conv2d(frames, taps, stride=self.stride[1], padding=1)
        taps_of_frames = y.permute(0, 2, 3, 1).unflatten(0, x.shape[:2])
        previous_tap, tap, next_tap = taps_of_frames.chunk(3, dim=-1)
        assert self.bias is not None
        out = tap + self.bias.to(tap.dtype)
        # Zeros lie beyond the ends of the clip.
        out[:, 1:].add_(previous_tap[:, :-1])  # the operator += would copy the slice onto itself
        out[:, :-1].add_(next_tap[:, 1:])
        return out


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Pad the last two axes at their ends by reflection (without repeating the border).

    Axes shorter than the padding are reflected repeatedly.

    Args:
        x: (..., H, W).
        multiple: number that divides the new height and width.

    Returns:
        (..., H', W'); ``x`` itself if its sides are multiples already.

    >>> pad_to_multiple(torch.tensor([[1, 2, 3]] * 4), 4)[0]
    tensor([1, 2, 3, 2])
    """
    for axis in (-2, -1):
        length = x.shape[axis]
        target = round_up(length, multiple)
        if target != length:
            # 0, 1, ..., length - 1, length - 2, ..., 1, 0, 1, ...
            period = max(2 * (length - 1), 1)
            position = torch.arange(target, device=x.device) % period
            x = x.index_select(axis, torch.minimum(position, period - position))
    return x
