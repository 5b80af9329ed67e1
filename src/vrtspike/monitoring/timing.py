"""Time per named section of a training step, without synchronising the device.

Sections nest and their names are paths: ``step/forward/vrt/stage1``. A parent's time contains its
children's. On CUDA each section is a pair of events, read when they are complete; on a CPU it is
timed by :func:`time.perf_counter`.

Models need no reference to a logger: :func:`section` uses the one that is active in the current
context, and costs almost nothing without one.
"""

from __future__ import annotations

import contextlib
import json
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from statistics import fmean
from typing import Any, Self, TextIO, TypeAlias

import torch

from vrtspike.io.files import write_errors_name
from vrtspike.monitoring.display import Display
from vrtspike.monitoring.timing_text import (
    FlopEstimate,
    console_text,
    step_text,
    summarize,
    summary_text,
    with_parents,
)

RECOMPUTATION = "recomputation"
"""Name of the sections that run again in backward because of activation checkpointing."""

_ACTIVE: ContextVar[TimingLogger | None] = ContextVar("active_timing_logger", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()

SectionSwitch: TypeAlias = Callable[[str], None]
"""Function that ends a section and continues it as its sibling of a given name."""


def section(name: str) -> AbstractContextManager[SectionSwitch | None]:
    """Time the body as ``name`` with the active :class:`TimingLogger`, if there is one.

    Args:
        name: a name or a path such as ``vrt/stage1``, relative to the section it runs in.
    """
    if torch.compiler.is_compiling():
        return _NOTHING
    logger = _ACTIVE.get()
    if logger is None:
        return _NOTHING
    return logger.section(name)


Event: TypeAlias = Any
"""A ``torch.cuda.Event``; on a CPU a time of :func:`time.perf_counter`."""
TimedSection: TypeAlias = tuple[str, Event, Event]
"""Path of a section, its start and end."""


class TimingLogger:
    """Logger of the times of sections per step, on the console and in files.

    Args:
        folder: folder for ``timing_<start>.log`` (text) and ``timing_<start>.jsonl``; None writes
            no files.
        device: device of the timed work; CUDA devices are timed by events.
        enabled: if false, every method does nothing.
        console: display that shows the five slowest sections; None shows none.
        console_interval: steps between two updates of the console.
        file_interval: steps between two writes to the files.

    Example:
        >>> timing = TimingLogger(None, "cpu")
        >>> with timing.activate(), timing.section("step"), section("forward"):
        ...     pass
        >>> timing.step(1)
        >>> timing.close()
    """

    def __init__(
        self,
        folder: Path | None,
        device: torch.device | str,
        enabled: bool = True,
        console: Display | None = None,
        console_interval: int = 10,
        file_interval: int = 50,
    ) -> None:
        self.enabled = enabled
        """True if anything is measured."""
        self._folder = folder
        self._on_gpu = torch.device(device).type == "cuda"
        self._console = console
        self._console_interval = console_interval
        self._file_interval = file_interval
        self._stack: list[str] = []
        self._events: list[Event] = []  # for reuse
        self._spans: list[TimedSection] = []
        self._logged: dict[str, float] = {}
        self._waiting: deque[tuple[dict[str, Any], list[TimedSection]]] = deque()
        self._history: dict[str, array[float]] = {}
        self._sums: dict[str, float] = {}
        self._totals: Counter[str] = Counter()
        self._arithmetic: FlopEstimate | None = None
        self._files: tuple[TextIO, ...] = ()

    def note_arithmetic(self, arithmetic: FlopEstimate) -> None:
        """Record the FLOPs of a sample, for FLOP/s in the summary."""
        self._arithmetic = arithmetic
        self._write("", {"kind": "work", **arithmetic._asdict()})

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[SectionSwitch | None]:
        """Time the body as ``name``, a path relative to the section it runs in.

        Yields:
            a function that ends the section and continues it as its sibling of another name.
        """
        if not self.enabled:
            yield None
            return
        # Activation checkpointing runs forward within backward; on a CPU in this thread.
        is_recomputed = torch._C._current_graph_task_id() != -1 and RECOMPUTATION not in self._stack
        depth = len(self._stack)
        self._stack += [RECOMPUTATION, name] if is_recomputed else [name]
        start = self._event()

        def end() -> None:
            self._spans.append(("/".join(self._stack), start, self._event()))

        def switch(sibling: str) -> None:
            nonlocal start
            end()
            self._stack[-1] = sibling
            start = self._event()

        try:
            yield switch
        finally:
            end()
            del self._stack[depth:]

    def log(self, name: str, ms: float) -> None:
        """Add ``ms`` milliseconds, measured elsewhere, to the current step under ``name``."""
        if self.enabled:
            path = "/".join([*self._stack, name])
            self._logged[path] = self._logged.get(path, 0.0) + ms

    @contextlib.contextmanager
    def activate(self) -> Iterator[Self]:
        """Make :func:`section` use this logger within the body."""
        token = _ACTIVE.set(self if self.enabled else None)
        try:
            yield self
        finally:
            _ACTIVE.reset(token)

    def step(self, step: int, samples: int = 0, frames: int = 0) -> None:
        """End a step; its record is written when the device has finished it.

        Args:
            step: number of the step.
            samples: samples the step has processed, for the throughput in the summary.
            frames: video frames the step has processed, for the same.
        """
        if not self.enabled:
            return
        record = {
            "kind": "step",
            "step": step,
            "time": round(time.time(), 3),
            "samples": samples,
            "frames": frames,
            "ms": self._logged,
        }
        self._waiting.append((record, self._spans))
        self._spans = []
        self._logged = {}
        self._finish_steps(wait=False)

    def summary(self) -> dict[str, Any]:
        """Return milliseconds per name (mean, min, max, p50, p95), throughput, data wait."""
        self._finish_steps(wait=True)
        return summarize(self._history, self._totals, self._arithmetic)

    def print_summary(self) -> None:
        """Show the summary on the console and append it to both files, if there were steps."""
        summary = self.summary()
        if not summary["steps"]:
            return
        text = summary_text(summary)
        if self._console is not None:
            self._console.note(text)
        self._write(text + "\n", {"kind": "summary", **summary})
        self._flush()

    def flush(self) -> None:
        """Wait for the device, and flush the records of all ended steps."""
        self._finish_steps(wait=True)
        self._flush()

    def close(self) -> None:
        """Write pending records and close the files."""
        self.flush()
        for stream in self._files:
            stream.close()
        self._files = ()
        self._folder = None
        self.enabled = False

    def _event(self) -> Event:
        """Return an event after the work launched so far, without synchronisation."""
        if not self._on_gpu:
            return time.perf_counter()
        event = self._events.pop() if self._events else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _finish_steps(self, wait: bool) -> None:
        """Finish the steps that the device has completed, or wait for all."""
        while self._waiting:
            record, spans = self._waiting[0]
            if spans and self._on_gpu:
                last = spans[-1][2]
                if wait:
                    last.synchronize()
                if not last.query():
                    return
            self._waiting.popleft()
            measured = record["ms"]
            for path, start, end in spans:
                if self._on_gpu:
                    ms = start.elapsed_time(end)
                    self._events += (start, end)
                else:
                    ms = 1e3 * (end - start)
                measured[path] = measured.get(path, 0.0) + ms
            self._finish(record, with_parents(measured))

    def _finish(self, record: dict[str, Any], times: dict[str, float]) -> None:
        """Write the record of a step, and show its times now and then."""
        self._totals.update(steps=1, samples=record["samples"], frames=record["frames"])
        steps = self._totals["steps"]
        for path, ms in times.items():
            self._history.setdefault(path, array("f")).append(ms)
            self._sums[path] = self._sums.get(path, 0.0) + ms
        averages = {path: self._sums[path] / len(self._history[path]) for path in times}
        record["ms"] = {path: round(ms, 4) for path, ms in times.items()}
        self._write(step_text(record["step"], times, averages), record)
        if steps % self._file_interval == 0:
            self._flush()
        if self._console is not None and steps % self._console_interval == 0:
            self._console.draw(*console_text(record["step"], times))

    def _write(self, text: str, record: dict[str, Any]) -> None:
        """Write to the text file and, as one line of JSON, to the other."""
        if self._folder is None:
            return
        if not self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            # In UTC, so that files are in order also after the clock of the place goes back.
            start = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            paths = (self._folder / f"timing_{start}.{kind}" for kind in ("log", "jsonl"))
            self._files = tuple(path.open("a", encoding="utf-8") for path in paths)
        for stream, written in zip(self._files, (text, json.dumps(record) + "\n"), strict=True):
            stream.write(written)

    def _flush(self) -> None:
        for stream in self._files:
            with write_errors_name(Path(stream.name)):
                stream.flush()


class Stopwatch:
    """Stopwatch for repeated work of one kind, such as the calls of a model.

    Args:
        device: device of the work; the end of a lap waits for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._laps: list[float] = []

    @contextlib.contextmanager
    def lap(self) -> Iterator[None]:
        """Time the body and the work that it launches on the device, as one lap."""
        started = time.perf_counter()
        yield
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._laps.append(time.perf_counter() - started)

    @property
    def seconds(self) -> float:
        """Seconds of all laps; the first of several counts as the mean of the others.

        In the first one the device loads its kernels.
        """
        if not self._laps:
            return 0.0
        return fmean(self._laps[1:] or self._laps) * len(self._laps)


def time_call(device: torch.device, call: Callable[[], object]) -> float:
    """Measure the time of a call, with the work that it launches on the device."""
    watch = Stopwatch(device)
    with watch.lap():
        call()
    return watch.seconds
