"""The window of steps under the profiler."""

from __future__ import annotations

import torch

from vrtspike.monitoring.profiling import ProfileWindow


def test_a_run_that_ends_within_the_window_leaves_what_was_profiled(tmp_path):
    notes: list[str] = []
    window = ProfileWindow(tmp_path, (2, 9), torch.device("cpu"), notes.append)
    for number in (1, 2, 3):
        with window.step(number):
            torch.ones(8, 8) @ torch.ones(8, 8)
    assert not notes
    window.close()
    window.close()
    assert "aten::matmul" in (tmp_path / "profile_2-9.txt").read_text()
    assert len(notes) == 1
