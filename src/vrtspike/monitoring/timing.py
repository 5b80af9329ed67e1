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
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO, TypeAlias

import torch

from vrtspike.io.files import writes_to
from vrtspike.monitoring.display import Display
from vrtspike.monitoring.timing_layout import (
    Arithmetic,
    console_block,
    console_line,
    step_text,
    summarize,
    summary_text,
    with_parents,
)

RECOMPUTATION = "recomputation"
"""Name of the sections that run again in backward because of activation checkpointing."""

_ACTIVE: ContextVar[TimingLogger | None] = ContextVar("active_timing_logger", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()


def section(name: str) -> AbstractContextManager[object]:
    """Time the body as ``name`` with the active :class:`TimingLogger`, if there is one.

    Args:
        name: a name or a path such as ``vrt/stage1``, relative to the section it runs in.
    """
    if torch.compiler.is_compiling():
        return _NOTHING
    logger = _ACTIVE.get()
    return _NOTHING if logger is None else logger.section(name)


class HostEvent:
    """A point in time on the host, with the interface of ``torch.cuda.Event``."""

    def record(self) -> None:
        """Take the present time."""
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Whether the device has reached it."""
        return True

    def synchronize(self) -> None:
        """Wait until the device has reached it."""

    def elapsed_time(self, end: HostEvent) -> float:
        """Milliseconds to a later event."""
        return 1e3 * (end._time - self._time)


Event: TypeAlias = Any
""":class:`HostEvent` or ``torch.cuda.Event``."""


@dataclass
class _Step:
    """Measurements between two calls of ``step()``."""

    spans: list[tuple[str, Event, Event]] = field(default_factory=list)
    logged: dict[str, float] = field(default_factory=dict)
    number: int = 0
    samples: int = 0
    frames: int = 0
    time: float = 0.0


class TimedSection(AbstractContextManager["TimedSection"]):
    """A running section, created by :meth:`TimingLogger.section`."""

    def __init__(self, logger: TimingLogger, name: str) -> None:
        self._logger, self._name = logger, name

    def __enter__(self) -> Self:
        """Start the section."""
        stack = self._logger._stack
        # Activation checkpointing runs forward within backward; on a CPU in this thread.
        if torch._C._current_graph_task_id() != -1 and RECOMPUTATION not in stack:
            stack.append(RECOMPUTATION)
        stack.append(self._name)
        self._start = self._logger._event()
        return self

    def __exit__(self, *error: object) -> None:
        """End the section, also after an error."""
        self._record()
        stack = self._logger._stack
        stack.pop()
        if stack and stack[-1] == RECOMPUTATION:
            stack.pop()

    def switch(self, name: str) -> None:
        """End this section and continue as its sibling ``name``."""
        self._record()
        self._logger._stack[-1] = name
        self._start = self._logger._event()

    def _record(self) -> None:
        path = "/".join(self._logger._stack)
        self._logger._current.spans.append((path, self._start, self._logger._event()))


class TimingLogger:
    """Collects the times of sections per step and writes them to the console and to files.

    Args:
        folder: of ``timing_<start>.log`` (text) and ``timing_<start>.jsonl``; None writes no files.
        device: of the timed work; CUDA devices are timed by events.
        enabled: if false, every method does nothing.
        console: shows the five slowest entries; None for none.
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
        """Whether anything is measured."""
        self._on_gpu = torch.device(device).type == "cuda"
        self._console, self._console_interval = console, console_interval
        self._file_interval = file_interval
        self._stack: list[str] = []
        self._events: list[Event] = []  # to be used again
        self._current = _Step()
        self._waiting: deque[_Step] = deque()
        self._history: dict[str, array[float]] = {}
        self._sums: dict[str, float] = {}
        self._steps = self._samples = self._frames = 0
        self._arithmetic: Arithmetic | None = None
        self._files: tuple[TextIO, ...] = ()
        if enabled and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            start = time.strftime("%Y%m%d-%H%M%S")
            paths = (folder / f"timing_{start}.{kind}" for kind in ("log", "jsonl"))
            self._files = tuple(path.open("a", encoding="utf-8") for path in paths)

    def note_arithmetic(self, arithmetic: Arithmetic) -> None:
        """Record the FLOPs of a sample, for FLOP/s in the summary."""
        self._arithmetic = arithmetic
        self._write("", {"kind": "work", **asdict(arithmetic)})

    def section(self, name: str) -> AbstractContextManager[object]:
        """Time the body as ``name``, a path relative to the section it runs in."""
        return TimedSection(self, name) if self.enabled else _NOTHING

    def log(self, name: str, ms: float) -> None:
        """Add ``ms`` milliseconds, measured elsewhere, to the current step under ``name``."""
        if self.enabled:
            path = "/".join([*self._stack, name])
            self._current.logged[path] = self._current.logged.get(path, 0.0) + ms

    @contextlib.contextmanager
    def activate(self) -> Iterator[Self]:
        """Make :func:`section` use this logger within the body."""
        token = _ACTIVE.set(self if self.enabled else None)
        try:
            yield self
        finally:
            _ACTIVE.reset(token)

    def step(self, number: int, samples: int = 0, frames: int = 0) -> None:
        """End a step; its record is written when the device has finished it.

        Args:
            number: of the step.
            samples: samples the step has processed, for the throughput in the summary.
            frames: video frames the step has processed, likewise.
        """
        if not self.enabled:
            return
        record, self._current = self._current, _Step()
        record.number, record.time = number, time.time()
        record.samples, record.frames = samples, frames
        self._waiting.append(record)
        self._finish_steps(wait=False)

    def summary(self) -> dict[str, Any]:
        """Mean, min, max, p50 and p95 per name in milliseconds, throughput, share of data wait."""
        self._finish_steps(wait=True)
        return summarize(self._history, self._steps, self._samples, self._frames, self._arithmetic)

    def print_summary(self) -> None:
        """Show the summary on the console and append it to both files, if there were steps."""
        summary = self.summary()
        if not self._steps:
            return
        text = summary_text(summary)
        if self._console is not None:
            self._console.note(text)
        self._write(text + "\n", {"kind": "summary", **summary})
        self._flush()

    def flush(self) -> None:
        """Flush the records of all ended steps; waits for the device."""
        self._finish_steps(wait=True)
        self._flush()

    def close(self) -> None:
        """Write pending records and close the files."""
        self.flush()
        for stream in self._files:
            stream.close()
        self._files = ()
        self.enabled = False

    def _event(self) -> Event:
        """An event after the work launched so far, without synchronisation."""
        if self._events:
            event = self._events.pop()
        else:
            event = torch.cuda.Event(enable_timing=True) if self._on_gpu else HostEvent()
        event.record()
        return event

    def _finish_steps(self, wait: bool) -> None:
        """Finish the steps that the device has completed, or wait for all."""
        while self._waiting:
            if spans := self._waiting[0].spans:
                last = spans[-1][2]
                if wait:
                    last.synchronize()
                if not last.query():
                    return
            self._finish(self._waiting.popleft())

    def _finish(self, record: _Step) -> None:
        measured = record.logged
        for path, start, end in record.spans:
            measured[path] = measured.get(path, 0.0) + start.elapsed_time(end)
            self._events += (start, end)
        times = with_parents(measured)
        self._steps += 1
        self._samples += record.samples
        self._frames += record.frames
        for path, ms in times.items():
            self._history.setdefault(path, array("f")).append(ms)
            self._sums[path] = self._sums.get(path, 0.0) + ms
        if self._files:
            averages = {path: self._sums[path] / len(self._history[path]) for path in times}
            line = {
                "kind": "step",
                "step": record.number,
                "time": round(record.time, 3),
                "samples": record.samples,
                "frames": record.frames,
                "ms": {path: round(ms, 4) for path, ms in times.items()},
            }
            self._write(step_text(record.number, times, averages), line)
            if self._steps % self._file_interval == 0:
                self._flush()
        if self._console is not None and self._steps % self._console_interval == 0:
            block = console_block(record.number, times)
            self._console.draw(block, console_line(record.number, times))

    def _write(self, text: str, record: dict[str, Any]) -> None:
        """Write to the text file and, as one line of JSON, to the other."""
        for stream, written in zip(self._files, (text, json.dumps(record) + "\n"), strict=False):
            stream.write(written)

    def _flush(self) -> None:
        for stream in self._files:
            with writes_to(Path(stream.name)):
                stream.flush()
