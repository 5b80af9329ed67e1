"""Micro-steps that are recorded once and replayed: which are, when, and whether they may be.

A micro-step of a large model is tens of thousands of launches, which take the host longer than the
work takes the GPU. As a CUDA graph it is one. This module decides and checks; how a device records
is a :class:`Recorder` (:mod:`vrtspike.training.cuda_graphs`).

- Micro-steps of the same *kind* (structure and sizes of the batch, and what the task says of the
  step) are the same work. A kind is run a few times, so that nothing is laid out for the first time
  while it is recorded; then it is recorded.
- The first recording of a kind is tried: a batch is run and replayed with the same random numbers,
  and losses and gradients have to agree. If they do not, or the device cannot record, all goes on
  as it began, with one warning, or is an error where the settings insist.
- A recording keeps the memory of a whole pass to itself. A kind that has to be run drops all
  recordings first, so that memory never holds both; recording again takes a moment.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch

from vrtspike.errors import RunError
from vrtspike.training.gradients import FlatGradients
from vrtspike.training.static_batch import batch_kind, batch_tensors

Terms: TypeAlias = dict[str, torch.Tensor]
"""Detached loss terms by name, each a scalar."""

WARM_UP = 3
"""Micro-steps of a kind that are run before it is recorded."""

MAX_RECORDINGS = 64
"""After so many without a rest kinds change too often: recording costs more than it saves."""

TOLERANCES = {"32": 1e-3, "16-mixed": 1e-2, "bf16-mixed": 5e-2, "bf16-true": 5e-2}
"""By precision, how far gradients may be from those that were launched, relative to their norm.

The kernels are the same. Sums by atomic additions come in another order each time, and a library
may choose another algorithm: a few roundings, which the layers above carry on. What is wrong with a
recording (a batch, a random number or a decision that it does not read anew, a gradient that is
counted twice) is as large as the gradient.
"""


class Recording(Protocol):
    """Work that was recorded."""

    def replay(self) -> Terms:
        """Launch it; the terms are those of this replay, also after the next."""


class Recorder(Protocol):
    """How a device records work."""

    def record(self, work: Callable[[], Terms]) -> Recording:
        """Record ``work`` without running it.

        Raises:
            Exception: of any kind, where it cannot.
        """

    def beside(self) -> AbstractContextManager[object]:
        """Around work that is run: on the stream on which work is recorded, too."""

    def release(self) -> None:
        """Give the memory of recordings back, to which nothing refers any more."""


class Work(Protocol):
    """One micro-step: forward, loss and backward, which adds to the gradients."""

    def __call__(self, batch: Any, step: int) -> Terms:  # noqa: ANN401 - what a task prepares
        """The terms of ``batch`` in the step after ``step`` finished ones."""


@dataclass(frozen=True)
class _Static:
    """A batch at a fixed place and the work that reads it there."""

    tensors: list[torch.Tensor]
    recording: Recording


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch and its place in the run.

    Attributes:
        batch: as the task prepared it.
        number: of the micro-batch in the run; decides its random numbers.
        step: finished optimiser steps.
        tensors: of the batch, before the work puts others into it.
    """

    batch: Any
    number: int
    step: int
    tensors: list[torch.Tensor]


class StepGraphs:
    """Runs micro-steps, and replays what it has recorded of them.

    Args:
        work: what a micro-step is.
        recorder: how the device records it.
        seed: sets all generators for a micro-batch, given its number in the run.
        variant: from the finished steps to what of the work depends on them.
        buffers: tensors besides the gradients that work may write to.
        tolerance: see :data:`TOLERANCES`.
        insist: whether it is an error, not a warning, if micro-steps cannot be recorded.
    """

    def __init__(
        self,
        work: Work,
        recorder: Recorder,
        seed: Callable[[int], None],
        variant: Callable[[int], Hashable],
        buffers: Sequence[torch.Tensor] = (),
        *,
        tolerance: float,
        insist: bool = False,
    ) -> None:
        self._work, self._recorder = work, recorder
        self._seed, self._variant = seed, variant
        self._buffers = buffers
        self._tolerance, self._insist = tolerance, insist
        self._statics: dict[Hashable, _Static] = {}
        self._runs: Counter[Hashable] = Counter()
        self._trusted: set[Hashable] = set()
        self._recordings = 0
        self.fault: str | None = None
        """Why nothing is recorded any more."""

    def forget(self) -> None:
        """Drop all recordings and what is known of kinds: parameters or gradients are others."""
        self._drop()
        self._runs.clear()
        self._trusted.clear()

    def rest(self) -> None:
        """Give the memory of recordings back; kinds that are known are recorded again when due."""
        self._drop()
        self._recordings = 0

    def __call__(
        self,
        batch: Any,  # noqa: ANN401 - what a task prepares
        number: int,
        step: int,
        gradients: FlatGradients | None,
    ) -> Terms:
        """Add a micro-batch's gradients to those that there are.

        Args:
            batch: as the task prepared it.
            number: of the micro-batch in the run; decides its random numbers.
            step: finished optimiser steps.
            gradients: where the gradients stay; None as long as they do not, then work is run.

        Returns:
            its loss terms.

        Raises:
            RunError: if micro-steps cannot be recorded and have to be.
        """
        form = None if self.fault else batch_kind(batch)
        if form is None:
            self._drop()
            return self._run(MicroBatch(batch, number, step, []), gradients)
        micro = MicroBatch(batch, number, step, batch_tensors(batch))
        return self._recorded((form, self._variant(step)), micro, gradients)

    def _recorded(
        self, kind: Hashable, micro: MicroBatch, gradients: FlatGradients | None
    ) -> Terms:
        """The way of a kind from running to replaying."""
        static = self._statics.get(kind)
        if static is not None:
            return self._replay(static, micro)
        if gradients is None or self._runs[kind] < WARM_UP:
            self._drop()
            self._runs[kind] += 1
            return self._run(micro, gradients)
        if kind not in self._trusted:
            return self._try(kind, micro, gradients)
        fault = ""
        try:
            static = self._record(kind, micro, gradients)
        except _Distrust as error:
            fault = str(error)
        if static is None:
            # Not before the error is gone, which holds all that the failed recording had made.
            self._stop(fault)
            return self._run(micro, gradients)
        return self._replay(static, micro)

    def _run(self, micro: MicroBatch, gradients: FlatGradients | None) -> Terms:
        self._seed(micro.number)
        with self._recorder.beside(), nullcontext() if gradients is None else gradients.adding():
            return self._work(micro.batch, micro.step)

    def _replay(self, static: _Static, micro: MicroBatch) -> Terms:
        for kept, new in zip(static.tensors, micro.tensors, strict=True):
            kept.copy_(new, non_blocking=True)
        self._seed(micro.number)
        return static.recording.replay()

    def _record(self, kind: Hashable, micro: MicroBatch, gradients: FlatGradients) -> _Static:
        """Record a kind; this very batch becomes the place of all later ones."""
        if self._recordings == MAX_RECORDINGS:
            raise _Distrust(f"{MAX_RECORDINGS} recordings were made, batches change too often")
        self._recordings += 1
        # Random numbers other than those of the batch: what a replay does not draw anew, differs.
        self._seed(~micro.number)

        def work() -> Terms:
            with gradients.adding():
                return self._work(micro.batch, micro.step)

        try:
            recording = self._recorder.record(work)
        except Exception as error:  # of the driver, of a library, of memory
            raise _Distrust(_root_of(error)) from error
        self._statics[kind] = _Static(micro.tensors, recording)
        return self._statics[kind]

    def _try(self, kind: Hashable, micro: MicroBatch, gradients: FlatGradients) -> Terms:
        """Run a batch, record its kind, replay the batch, and compare; counts the batch once."""
        self._drop()
        before, fresh = gradients.copy(), [buffer.clone() for buffer in self._buffers]
        gradients.zero()
        terms = self._run(micro, gradients)
        launched, written = gradients.copy(), [buffer.clone() for buffer in self._buffers]
        # An overflow, as float16 meets them, compares with nothing; the next batch may.
        fault = None
        if all(math.isfinite(float(part.norm())) for part in launched):
            try:
                static = self._record(kind, micro, gradients)
                gradients.zero()
                _assign(self._buffers, fresh)
                self._compare(static, micro, terms, launched, gradients)
                self._trusted.add(kind)
            except _Distrust as error:
                fault = str(error)
            finally:
                _assign(self._buffers, written)
        if fault is not None:
            gradients.zero()
            gradients.add(launched)
            self._stop(fault)
        gradients.add(before)
        return terms

    def _compare(
        self,
        static: _Static,
        micro: MicroBatch,
        terms: Terms,
        launched: list[torch.Tensor],
        gradients: FlatGradients,
    ) -> None:
        """Replay a batch that was run; distrust the recording if it gives anything else."""
        try:
            found = self._replay(static, micro)
            difference = _difference(terms, found, launched, gradients.buffers)
        except Exception as error:  # of the driver
            raise _Distrust(_root_of(error)) from error
        if not difference <= self._tolerance:
            raise _Distrust(
                f"losses or gradients of a replay differ from those of launched kernels by "
                f"{difference:.1e} of their norm, more than {self._tolerance:.0e}"
            )

    def _stop(self, fault: str) -> None:
        """Record nothing any more."""
        self.fault = fault
        self.forget()
        # A recording that failed is none that could be dropped.
        self._recorder.release()
        if self._insist:
            raise RunError(
                f"TRAIN.CUDA_GRAPH is on, but micro-steps cannot be recorded as a CUDA graph: "
                f"{fault}. Set it to auto or off"
            )
        warnings.warn(
            f"micro-steps are launched kernel by kernel, which is slower: as a CUDA graph they "
            f"cannot be used ({fault}). TRAIN.CUDA_GRAPH: off leaves the attempt out",
            stacklevel=2,
        )

    def _drop(self) -> None:
        if self._statics:
            self._statics.clear()
            self._recorder.release()


class _Distrust(Exception):
    """Recordings are not used, for this reason."""


def _root_of(error: BaseException) -> str:
    """The error that came first and where; later ones say only that a recording was broken."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"


def _assign(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        if not torch.equal(tensor, value):  # constants are left alone
            tensor.copy_(value)


def _difference(
    terms: Terms, found: Terms, launched: list[torch.Tensor], replayed: list[torch.Tensor]
) -> float:
    """The largest relative difference of a term or of the gradients; infinite where terms differ
    in name."""
    if terms.keys() != found.keys():
        return math.inf
    pairs = [(terms[name], found[name]) for name in terms]
    pairs += zip(launched, replayed, strict=True)
    norms = [(float((b.double() - a.double()).norm()), float(a.double().norm())) for a, b in pairs]
    # Not max(), which may leave out what is not a number.
    worst = torch.tensor([apart / size if size else apart for apart, size in norms])
    return float(worst.max())
