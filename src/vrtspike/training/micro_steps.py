"""Micro-steps of a process (forward, loss, backward), whose kernels are launched one by one.

:mod:`vrtspike.training.cuda_graphs` replays them as CUDA graphs instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import torch
from torch import nn

from vrtspike.monitoring.timing import section
from vrtspike.training.distributed import Ranks, Replica
from vrtspike.training.precision import Precision
from vrtspike.training.tasks import Batch, Task

Terms: TypeAlias = dict[str, torch.Tensor]
"""Detached loss terms by name, each a scalar."""

Seed: TypeAlias = Callable[[int], None]
"""Sets all generators of random numbers for a micro-batch, given its number in the run."""


class Work:
    """Forward, loss and backward of a micro-batch, in the precision of the run.

    Args:
        task: what a batch means.
        precision: of the run.
        parts: micro-batches of a process in an optimiser step, whose mean is minimised.
    """

    def __init__(self, task: Task, precision: Precision, parts: int) -> None:
        self._task, self._precision, self._parts = task, precision, parts

    def __call__(
        self,
        model: nn.Module,
        batch: Batch,
        step: int,
        around_backward: Callable[[object], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> Terms:
        """Add the gradients of a batch; returns its detached terms, divided like the loss.

        Args:
            model: called by the task.
            batch: as the task prepared it.
            step: finished optimiser steps.
            around_backward: given the timing section of the backward pass.
        """
        with section("forward"), self._precision.autocast():
            output = self._task.forward(model, batch)
        with section("loss"), self._precision.exact():
            terms = self._task.losses(output.float(), batch, step)
            loss = torch.stack(list(terms.values())).sum() / self._parts
        with section("backward") as running, around_backward(running):
            self._precision.backward(loss)
        return {name: term.detach() / self._parts for name, term in terms.items()}


class LaunchedMicroSteps:
    """Micro-steps by PyTorch's eager mode; DistributedDataParallel exchanges gradients.

    Args:
        model: on its device, in its precision.
        work: of a micro-step.
        ranks: the processes.
        optimizer: whose gradients are cleared.
        seed: for a micro-batch.
    """

    note = "kernels are launched one by one"

    def __init__(
        self,
        model: nn.Module,
        work: Work,
        ranks: Ranks,
        optimizer: torch.optim.Optimizer,
        seed: Seed,
    ) -> None:
        self._model, self._work, self._ranks = model, work, ranks
        self._optimizer, self._seed = optimizer, seed
        self.rebuild()

    def begin(self) -> None:
        """Clear the gradients, before the first micro-step of an optimiser step."""
        self._optimizer.zero_grad(set_to_none=True)

    def rebuild(self) -> None:
        """Adapt to parameters that were frozen or unfrozen; called while gradients are clear."""
        self._replica = Replica(self._model, self._ranks)

    def free_memory(self) -> None:
        """Free what is kept between micro-steps, before a validation needs it: nothing here."""

    def __call__(self, batch: Batch, number: int, step: int, last: bool) -> Terms:
        """Run a micro-step: add the gradients of a micro-batch to those there are.

        Args:
            batch: as the task prepared it.
            number: of the micro-batch in the run; decides its random numbers.
            step: finished optimiser steps.
            last: whether it is the last of its optimiser step, so that ranks exchange gradients.

        Returns:
            the detached loss terms over the number of micro-steps.
        """
        self._seed(number)
        replica = self._replica
        with replica.accumulate(exchange=last):
            return self._work(replica.module, batch, step, replica.backward)
