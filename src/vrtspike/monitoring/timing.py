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
import sys
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
    StepTimes,
    console_block,
    console_line,
    step_text,
    summarize,
    summary_text,
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


Mark: TypeAlias = Any
"""A point in time: a float of the host's clock or an event on a device's stream."""


class Clock:
    """Takes marks and measures the time between two complete ones; the host's clock."""

    def mark(self) -> Mark:
        """Mark the present time, without synchronisation."""
        return time.perf_counter()

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The time between two complete marks."""
        return float(end - start) * 1e3

    def is_complete(self, mark: Mark) -> bool:
        """Whether the device has reached ``mark``."""
        return True

    def wait(self, mark: Mark) -> None:
        """Wait until the device has reached ``mark``."""

    def release(self, *marks: Mark) -> None:
        """Return marks to the pool."""


class DeviceClock(Clock):
    """CUDA events on the device's current stream, from a pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: list[torch.cuda.Event] = []

    def mark(self) -> Mark:
        """Record an event after the work launched so far."""
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def milliseconds(self, start: Mark, end: Mark) -> float:
        """The device's time between two complete events."""
        return float(start.elapsed_time(end))

    def is_complete(self, mark: Mark) -> bool:
        """Whether the device has passed the event."""
        return bool(mark.query())

    def wait(self, mark: Mark) -> None:
        """Wait for the event."""
        mark.synchronize()

    def release(self, *marks: Mark) -> None:
        """Return events to the pool."""
        self._pool.extend(marks)


def clock_for(device: torch.device) -> Clock:
    """The clock for work on ``device``."""
    return DeviceClock(device) if device.type == "cuda" else Clock()


@dataclass
class _Step:
    """Measurements between two calls of ``step()``."""

    spans: list[tuple[str, Mark, Mark]] = field(default_factory=list)
    logged: dict[str, float] = field(default_factory=dict)
    number: int = 0
    samples: int = 0
    frames: int = 0
    time: float = 0.0


class TimedSection(AbstractContextManager["TimedSection"]):
    """A running section, created by :meth:`TimingLogger.section`."""

    def __init__(self, logger: TimingLogger, name: str) -> None:
        self._logger = logger
        self._name = name

    def __enter__(self) -> Self:
        """Start the section."""
        stack = self._logger._stack
        # Activation checkpointing runs forward within backward; on a CPU in this thread.
        if torch._C._current_graph_task_id() != -1 and RECOMPUTATION not in stack:
            stack.append(RECOMPUTATION)
        stack.append(self._name)
        self._start = self._logger._clock.mark()
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
        self._start = self._logger._clock.mark()

    def _record(self) -> None:
        end, path = self._logger._clock.mark(), "/".join(self._logger._stack)
        self._logger._current.spans.append((path, self._start, end))


class TimingLogger:
    """Collects the times of sections per step and writes them to the console and to files.

    Args:
        log_dir: folder of ``timing_<start>.log`` (text) and ``timing_<start>.jsonl``.
        device: of the timed work; CUDA devices are timed by events.
        enabled: if false, every method does nothing.
        console: whether and where to show the five slowest entries; true for standard output.
        file: whether to write the two files.
        console_interval: steps between two updates of the console.
        file_interval: steps between two writes to the files.

    Example:
        >>> timing = TimingLogger("/tmp/logs", "cpu", console=False, file=False)
        >>> with timing.activate(), timing.section("step"), section("forward"):
        ...     pass
        >>> timing.step()
        >>> timing.close()
    """

    def __init__(
        self,
        log_dir: str | Path,
        device: torch.device | str,
        enabled: bool = True,
        console: bool | Display = True,
        file: bool = True,
        console_interval: int = 10,
        file_interval: int = 50,
    ) -> None:
        self._clock = clock_for(torch.device(device))
        self.enabled = enabled
        """Whether anything is measured."""
        self._console: Display | None = None
        self._owns_console = enabled and console is True
        if enabled and console:
            self._console = Display(sys.stdout) if console is True else console
        self._console_interval = max(1, console_interval)
        self._file_interval = max(1, file_interval)
        self._stack: list[str] = []
        self._current = _Step()
        self._waiting: deque[_Step] = deque()
        self._history: dict[str, array[float]] = {}
        self._sums: dict[str, float] = {}
        self._steps = self._samples = self._frames = 0
        self._arithmetic: Arithmetic | None = None
        self._files: tuple[TextIO, ...] = ()
        if enabled and file:
            folder = Path(log_dir)
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

    def step(self, number: int | None = None, samples: int = 0, frames: int = 0) -> None:
        """End a step; its record is written when the device has finished it.

        Args:
            number: the step's number; counted from 1 if it is not given.
            samples: samples the step has processed, for the throughput in the summary.
            frames: video frames the step has processed, likewise.
        """
        if not self.enabled:
            return
        record, self._current = self._current, _Step()
        record.number = self._steps + len(self._waiting) + 1 if number is None else number
        record.samples, record.frames, record.time = samples, frames, time.time()
        self._waiting.append(record)
        while self._waiting and self._is_complete(self._waiting[0]):
            self._finish(self._waiting.popleft())

    def summary(self) -> dict[str, object]:
        """Mean, min, max, p50 and p95 per name in milliseconds, throughput, share of data wait."""
        self._drain()
        return summarize(self._history, self._steps, self._samples, self._frames, self._arithmetic)

    def print_summary(self) -> None:
        """Show the summary on the console and append it to both files, if there were steps."""
        self._drain()
        if not self.enabled or not self._steps:
            return
        summary = self.summary()
        text = summary_text(summary)
        if self._console is not None:
            self._console.note(text)
        self._write(text + "\n", {"kind": "summary", **summary})
        self._flush()

    def flush(self) -> None:
        """Flush the records of all ended steps; waits for the device."""
        self._drain()
        self._flush()

    def close(self) -> None:
        """Write pending records and close the files."""
        self._drain()
        for stream in self._files:
            stream.close()
        if self._console is not None and self._owns_console:
            self._console.close()
        self._files = ()
        self.enabled = False

    def _is_complete(self, record: _Step) -> bool:
        return not record.spans or self._clock.is_complete(record.spans[-1][2])

    def _drain(self) -> None:
        while self._waiting:
            record = self._waiting.popleft()
            if record.spans:
                self._clock.wait(record.spans[-1][2])
            self._finish(record)

    def _finish(self, record: _Step) -> None:
        times = record.logged
        for path, start, end in record.spans:
            times[path] = times.get(path, 0.0) + self._clock.milliseconds(start, end)
            self._clock.release(start, end)
        step = StepTimes(record.number, times)
        self._steps += 1
        self._samples += record.samples
        self._frames += record.frames
        for path, ms in step.times.items():
            self._history.setdefault(path, array("f")).append(ms)
            self._sums[path] = self._sums.get(path, 0.0) + ms
        if self._files:
            averages = {path: self._sums[path] / len(self._history[path]) for path in step.times}
            line = {
                "kind": "step",
                "step": record.number,
                "time": round(record.time, 3),
                "samples": record.samples,
                "frames": record.frames,
                "ms": {path: round(ms, 4) for path, ms in step.times.items()},
            }
            self._write(step_text(step, averages), line)
            if self._steps % self._file_interval == 0:
                self._flush()
        if self._console is not None and self._steps % self._console_interval == 0:
            self._console.draw(console_block(step), console_line(step))

    def _write(self, text: str, record: dict[str, Any]) -> None:
        """Write to the text file and, as one line of JSON, to the other."""
        for stream, written in zip(self._files, (text, json.dumps(record) + "\n"), strict=False):
            stream.write(written)

    def _flush(self) -> None:
        for stream in self._files:
            with writes_to(Path(stream.name)):
                stream.flush()
