"""Parameters that stay as they are for the first steps of a run."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn


class FrozenStart:
    """Keeps parameters fixed for the first steps; nothing is computed for their gradients.

    Whether they are fixed depends on the step alone, so a resumed run needs no state for it.

    Args:
        parameters: trainable ones; those that never learn must not be among them.
        steps: optimiser steps without them.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], steps: int) -> None:
        self._parameters = list(parameters)
        self._steps = steps

    def apply(self, step: int) -> bool:
        """Fix or release them for the step after ``step`` finished ones.

        Returns:
            whether that changed anything: who looked at ``requires_grad`` must look again.
        """
        learns = step >= self._steps
        changed = any(p.requires_grad != learns for p in self._parameters)
        for parameter in self._parameters:
            parameter.requires_grad_(learns)
        return changed
