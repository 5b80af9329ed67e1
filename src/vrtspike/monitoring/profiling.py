"""A window of steps under PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

ROWS = 30


class ProfileWindow:
    """Profiles the steps ``first`` to ``last`` of a run.

    Leaves ``profile_<first>-<last>.json`` (a trace for chrome://tracing or ui.perfetto.dev) and
    ``profile_<first>-<last>.txt`` (the operations that took most time) in the log folder.

    Args:
        folder: for the two files.
        window: first and last step, from 1; None profiles nothing.
        device: where the steps run.
        note: is told where the files are.
    """

    def __init__(
        self,
        folder: Path,
        window: tuple[int, int] | None,
        device: torch.device,
        note: Callable[[str], None] = print,
    ) -> None:
        self._folder = folder
        self._window = window
        self._device = device
        self._note = note
        self._profile: profile | None = None

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Around step ``number``."""
        if self._window is None:
            yield
            return
        first, last = self._window
        if self._profile is None and first <= number <= last:
            self._profile = self._start()
        yield
        if number >= last:
            self.close()

    def close(self) -> None:
        """Write what was profiled, also where the run ends within the window."""
        if self._profile is not None and self._window is not None:
            first, last = self._window
            self._finish(self._profile, f"profile_{first}-{last}")
            self._profile = self._window = None

    def _start(self) -> profile:
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        started = profile(activities=activities)
        started.start()
        return started

    def _finish(self, running: profile, name: str) -> None:
        running.stop()
        self._folder.mkdir(parents=True, exist_ok=True)
        running.export_chrome_trace(str(self._folder / f"{name}.json"))
        key = "self_cuda_time_total" if self._device.type == "cuda" else "self_cpu_time_total"
        table = running.key_averages().table(sort_by=key, row_limit=ROWS)
        (self._folder / f"{name}.txt").write_text(table, encoding="utf-8")
        self._note(f"profile of steps {name.removeprefix('profile_')}: {self._folder / name}.txt")
