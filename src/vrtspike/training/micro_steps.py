"""Micro-steps of a process: forward, loss and backward, launched one by one or recorded."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import nn

from vrtspike.config.train_schema import TrainSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.monitoring.timing import section
from vrtspike.training.distributed import (
    BufferWatch,
    Ranks,
    Replica,
    average_gradients,
    require_gradients,
    send_from_first,
)
from vrtspike.training.gradients import FlatGradients
from vrtspike.training.precision import Precision
from vrtspike.training.step_graph import TOLERANCES, Recorder, StepGraphs, Terms
from vrtspike.training.tasks import Batch, Task

Seed = Callable[[int], None]
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


class MicroSteps(Protocol):
    """How the micro-steps of a process are done.

    Attributes:
        note: that in a few words, for the log of a run.
    """

    note: str

    def begin(self) -> None:
        """Clear the gradients, before the first micro-step of an optimiser step."""

    def renew(self) -> None:
        """Take in that parameters were fixed or set free; the gradients are clear."""

    def rest(self) -> None:
        """Give back what only micro-steps need, before something else needs the memory."""

    def __call__(self, batch: Batch, number: int, step: int, last: bool) -> Terms:
        """Do a micro-step.

        Args:
            batch: as the task prepared it.
            number: of the micro-batch in the run.
            step: finished optimiser steps.
            last: whether the processes exchange gradients after it.

        Returns:
            the detached loss terms over the number of micro-steps.
        """


class LaunchedMicroSteps:
    """Micro-steps whose kernels are launched one by one; gradients are exchanged during backward.

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
        self.renew()

    def begin(self) -> None:
        """Remove the gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def renew(self) -> None:
        """Lay the exchange of gradients out for the parameters that have one."""
        self._replica = Replica(self._model, self._ranks)

    def rest(self) -> None:
        """Keep everything: kernels that are launched hold no memory in between."""

    def __call__(self, batch: Batch, number: int, step: int, last: bool) -> Terms:
        """Do a micro-step; see :meth:`MicroSteps.__call__`."""
        self._seed(number)
        replica = self._replica
        with replica.accumulate(exchange=last):
            return self._work(
                replica.module, batch, step, lambda running: replica.backward(running, last)
            )


class RecordedMicroSteps:
    """Micro-steps that are recorded and replayed; gradients stay in place and are exchanged after.

    Args:
        model: on its device, in its precision.
        work: of a micro-step.
        ranks: the processes.
        optimizer: whose gradients are cleared as long as they have no place.
        seed: for a micro-batch.
        recorder: how the device records.
        variant: of the task, see :class:`~vrtspike.training.tasks.Task`.
        precision: by name; decides how exactly a replay has to agree.
        insist: whether it is an error if micro-steps cannot be recorded.
    """

    note = "micro-steps are replayed as CUDA graphs"

    def __init__(
        self,
        model: nn.Module,
        work: Work,
        ranks: Ranks,
        optimizer: torch.optim.Optimizer,
        seed: Seed,
        recorder: Recorder,
        variant: Callable[[int], Hashable],
        precision: str,
        *,
        insist: bool,
    ) -> None:
        self._model, self._ranks, self._optimizer = model, ranks, optimizer
        # As DistributedDataParallel begins.
        send_from_first([*model.parameters(), *model.buffers()], ranks)
        self._watch = BufferWatch(model)
        self._sends_buffers = False
        self._gradients: FlatGradients | None = None
        self._graphs = StepGraphs(
            lambda batch, step: work(model, batch, step),
            recorder,
            seed,
            variant,
            list(model.buffers()),
            tolerance=TOLERANCES[precision],
            insist=insist,
        )

    def begin(self) -> None:
        """Set the gradients to zero, or remove them as long as they have no place."""
        if self._gradients is None:
            self._optimizer.zero_grad(set_to_none=True)
        else:
            self._gradients.zero()

    def renew(self) -> None:
        """Forget recordings, which were made for other parameters, and where gradients stay."""
        if self._gradients is not None:
            self._gradients.release()
        self._gradients = None
        self._graphs.forget()

    def rest(self) -> None:
        """Drop the recordings, each of which holds the memory of a whole pass."""
        self._graphs.rest()

    def __call__(self, batch: Batch, number: int, step: int, last: bool) -> Terms:
        """Do a micro-step; see :meth:`MicroSteps.__call__`.

        Raises:
            RunError: if micro-steps cannot be recorded and have to be, or the parameters that take
                part in the loss are not the same in every step.
        """
        terms = self._graphs(batch, number, step, self._gradients)
        gradients = self._place_gradients()
        if last and self._ranks.world_size > 1:
            with section("sync"):
                average_gradients(gradients.buffers, self._ranks)
                if self._sends_buffers:
                    send_from_first(self._model.buffers(), self._ranks)
        return terms

    def _place_gradients(self) -> FlatGradients:
        """Give the gradients of the first backward pass their place."""
        if self._gradients is None:
            if self._ranks.world_size > 1:
                require_gradients(self._model)
            self._gradients = FlatGradients(self._model.parameters())
            self._sends_buffers = self._watch.have_changed()
        elif not self._gradients.hold_all_of(self._model.parameters()):
            raise RunError(
                "parameters take part in the loss in some steps only, so that their gradients have "
                "no fixed place; set TRAIN.CUDA_GRAPH to off"
            )
        return self._gradients


def may_record(train: TrainSettings, device: torch.device, has_variants: bool) -> bool:
    """Whether micro-steps are recorded, as far as can be told before the first.

    Args:
        train: CUDA_GRAPH, COMPILE_MODEL and COMPILE_MODE are read.
        device: where the run computes.
        has_variants: whether the task tells what of its work depends on the step.

    Raises:
        ConfigError: if they cannot be, and CUDA_GRAPH is on.
    """
    if train.CUDA_GRAPH == "off":
        return False
    obstacle = _obstacle(train, device, has_variants)
    if obstacle and train.CUDA_GRAPH == "on":
        raise ConfigError(f"TRAIN.CUDA_GRAPH is on, but {obstacle}; set it to auto or off")
    return not obstacle


def _obstacle(train: TrainSettings, device: torch.device, has_variants: bool) -> str:
    if device.type != "cuda":
        return f"this run computes on a device of type {device.type}, which has no CUDA graphs"
    if train.COMPILE_MODEL and train.COMPILE_MODE != "default":
        return f"TRAIN.COMPILE_MODE {train.COMPILE_MODE} makes graphs of its own"
    if not has_variants:
        return "the task has no method variant(step), which tells whether steps are the same work"
    return ""


def micro_steps(
    model: nn.Module,
    task: Task,
    train: TrainSettings,
    precision: Precision,
    ranks: Ranks,
    optimizer: torch.optim.Optimizer,
    seed: Seed,
    recorder: Callable[[], Recorder],
    parts: int,
) -> MicroSteps:
    """The micro-steps of a run, recorded where they may be.

    Args:
        model: on its device, in its precision.
        task: what a batch means.
        train: see :func:`may_record`.
        precision: of the run.
        ranks: the processes.
        optimizer: of the model.
        seed: for a micro-batch.
        recorder: makes the recorder, where one is needed.
        parts: micro-batches of a process in an optimiser step.

    Raises:
        ConfigError: see :func:`may_record`.
    """
    work = Work(task, precision, parts)
    variant: Any = getattr(task, "variant", None)
    if not may_record(train, ranks.device, variant is not None):
        return LaunchedMicroSteps(model, work, ranks, optimizer, seed)
    return RecordedMicroSteps(
        model,
        work,
        ranks,
        optimizer,
        seed,
        recorder(),
        variant,
        precision.name,
        insist=train.CUDA_GRAPH == "on",
    )
