"""Profiles of a window of steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.training.setup_run import Notes
from vrtspike.training.profiling import profiler

CPU = torch.device("cpu")
TABLE_NAMES = ("aten::sin", "aten::cos", "aten::exp", "aten::tanh", "aten::log", "aten::sqrt")
OPERATIONS = (torch.sin, torch.cos, torch.exp, torch.tanh, torch.log, torch.sqrt)


def steps(folder: Path, window: tuple[int, int], done: int, notes: Notes) -> set[str]:
    """Train from a finished step on, each step with an operation of its own; names in the table.

    Step 1 takes the sine, step 2 the cosine and so on.
    """
    with profiler(window, done, folder, CPU, notes) as profile:
        for operation in OPERATIONS[done:]:
            operation(torch.ones(4))
            if profile is not None:
                profile.step()
    first, last = window
    table = folder / f"profile_{first}-{last}.txt"
    if not table.exists():
        return set()
    return {name for name in TABLE_NAMES if name in table.read_text()}


@pytest.mark.parametrize(
    ("window", "done", "expected"),
    [
        ((3, 4), 0, {"aten::exp", "aten::tanh"}),
        ((1, 2), 0, {"aten::sin", "aten::cos"}),
        ((2, 2), 0, {"aten::cos"}),
        # A run that continues within the window, or before it.
        ((2, 4), 2, {"aten::exp", "aten::tanh"}),
        ((5, 5), 2, {"aten::log"}),
        ((2, 3), 3, set()),
    ],
)
def test_the_steps_of_the_window_are_profiled(tmp_path, window, done, expected):
    assert steps(tmp_path, window, done, Notes()) == expected


def test_the_files_are_a_trace_and_a_table_and_a_note_names_it(tmp_path):
    notes = Notes()
    steps(tmp_path, (3, 4), 0, notes)
    table = tmp_path / "profile_3-4.txt"
    assert notes.notes == [f"profile of steps 3-4: {table}"]
    assert "Self CPU" in table.read_text()
    trace = json.loads((tmp_path / "profile_3-4.json").read_text())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert {"aten::exp", "aten::tanh"} <= names


def test_a_window_that_is_done_gives_no_profile(tmp_path):
    with profiler((2, 3), 3, tmp_path, CPU, Notes()) as profile:
        assert profile is None
    assert not any(tmp_path.iterdir())
