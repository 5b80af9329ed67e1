"""Gradients that stay where they are: parts of one buffer, zeroed and exchanged as a whole.

A CUDA graph adds to the gradients at the addresses that it was recorded with, so they must not
move from step to step; and several processes exchange one large buffer faster than many small ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

_ALIGNMENT = 256
"""Gradients begin at multiples of this many bytes, where kernels read several values at once."""


class FlatGradients:
    """Moves the gradients of parameters into one buffer per type and device; their values stay.

    Args:
        parameters: of a model. Those that have no gradient have no part in the loss: an optimiser
            leaves them as they are, and so does this.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
        for parameter in parameters:
            if parameter.grad is not None:
                kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
        self.buffers = [_gathered(alike) for alike in kinds.values()]
        """One per type and device, one-dimensional; gaps between gradients are 0."""
        # Each parameter with the place of its gradient.
        self._kinds = [[(p, _gradient(p)) for p in alike] for alike in kinds.values()]
        self._pairs = [pair for kind in self._kinds for pair in kind]

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Around a backward pass, whose gradients are added to those there are in few launches.

        By itself a backward pass adds to each gradient by a launch of its own, of which a large
        model has more than a thousand; where it finds none it leaves what it made, to be added with
        all others. An error adds nothing.
        """
        self.release()
        try:
            yield
            for kind in self._kinds:
                made = [(place, p.grad) for p, place in kind if p.grad is not None]
                if made:
                    grads = [_like(place, grad) for place, grad in made]
                    torch._foreach_add_([place for place, _ in made], grads)
        finally:
            for parameter, place in self._pairs:
                parameter.grad = place

    def zero(self) -> None:
        """Set all gradients to zero."""
        torch._foreach_zero_(self.buffers)

    def copy(self) -> list[torch.Tensor]:
        """Copies of the buffers."""
        return [buffer.clone() for buffer in self.buffers]

    def add(self, values: list[torch.Tensor]) -> None:
        """Add what :meth:`copy` gave."""
        torch._foreach_add_(self.buffers, values)

    def hold_all_of(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Whether no other one of ``parameters`` has a gradient."""
        own = {id(parameter) for parameter, _ in self._pairs}
        return all(p.grad is None or id(p) in own for p in parameters)

    def release(self) -> None:
        """Take the gradients from the parameters."""
        for parameter, _ in self._pairs:
            parameter.grad = None


def _like(place: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """A gradient with the strides of its place.

    Those of axes of length 1 mean nothing and may differ; lists of which one pair differs in any
    would be added pair by pair.
    """
    strides = zip(place.shape, place.stride(), grad.stride(), strict=True)
    if all(length == 1 or a == b for length, a, b in strides):
        return grad.as_strided(place.shape, place.stride())
    return grad


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _gathered(parameters: list[nn.Parameter]) -> torch.Tensor:
    first = parameters[0]
    step = _ALIGNMENT // first.dtype.itemsize
    places = [0]
    for parameter in parameters:
        places.append(places[-1] + -(-parameter.numel() // step) * step)
    buffer = torch.zeros(places[-1], dtype=first.dtype, device=first.device)
    for place, parameter in zip(places, parameters, strict=False):
        # In the layout that a new gradient would have: that of the parameter.
        layout = torch.empty_like(parameter, device="meta")
        part = buffer[place : place + parameter.numel()].as_strided(layout.shape, layout.stride())
        parameter.grad = part.copy_(_gradient(parameter))
    return buffer
