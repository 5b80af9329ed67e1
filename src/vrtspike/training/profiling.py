"""PyTorch's profiler for some steps of a training (LOG.PROFILE_STEPS)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import torch
from torch.profiler import profile, schedule

from vrtspike.monitoring.display import Display

_ROWS = 30
"""Number of operations in the table."""


def profiler(
    window: tuple[int, int], step: int, folder: Path, device: torch.device, display: Display
) -> AbstractContextManager[profile | None]:
    """Return a profiler of a window of steps, as a context; of None if all of them are done.

    The profiler writes ``profile_<first>-<last>.json`` (a trace for ui.perfetto.dev) and ``.txt``
    (the operations that took most time).

    Args:
        window: first and last step.
        step: finished steps.
        folder: folder for the files.
        device: device of the run.
        display: display for a note with the file.
    """
    first, last = window
    if last <= step:
        return nullcontext()
    before = max(0, first - 1 - step)
    steps = schedule(
        wait=max(0, before - 1),
        warmup=min(1, before),
        active=last - step - before,
        repeat=1,
    )
    path = folder / f"profile_{first}-{last}.txt"
    write = partial(_write, path=path, device=device, display=display)
    return profile(schedule=steps, on_trace_ready=write)


def _write(result: profile, path: Path, device: torch.device, display: Display) -> None:
    result.export_chrome_trace(str(path.with_suffix(".json")))
    key = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
    table = result.key_averages().table(sort_by=key, row_limit=_ROWS)
    path.write_text(table, encoding="utf-8")
    display.note(f"profile of steps {path.stem.removeprefix('profile_')}: {path}")
