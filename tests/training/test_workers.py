from __future__ import annotations

import pytest

from vrtspike.config.run_schema import DataloaderSettings
from vrtspike.training.workers import resolve_workers


@pytest.mark.parametrize(
    ("settings", "gpus", "cpus", "train", "val", "total"),
    [
        ({}, 3, 40, 10, 5, 30),  # auto: 32 -> 10 each, half of it for validation
        ({}, 4, 64, 12, 6, 48),  # auto: 51 -> 12 each
        ({}, 1, 40, 32, 16, 32),
        ({"TOTAL_WORKERS": "cpu*0.9"}, 3, 40, 12, 6, 36),
        ({"TOTAL_WORKERS": "cpu*0.6"}, 2, 10, 4, 2, 8),  # 6 -> 3 each, but at least 4
        ({"TOTAL_WORKERS": 24}, 3, 40, 8, 4, 24),
        ({"TOTAL_WORKERS": 100}, 2, 16, 8, 4, 16),  # never more than the CPUs
        ({"TOTAL_WORKERS": "auto"}, 4, 12, 3, 1, 12),  # the bound beats the 4 for each
        ({}, 0, 2, 2, 1, 2),  # no GPU: one process
        ({}, 1, 1, 0, 0, 0),  # one CPU: the training process reads itself
        ({}, 8, 4, 0, 0, 0),  # fewer CPUs than GPUs
        ({"TOTAL_WORKERS": 0}, 1, 8, 0, 0, 0),
        ({"TRAIN_WORKERS": 2}, 3, 40, 2, 1, 6),
        ({"TRAIN_WORKERS": 6, "VAL_WORKERS": 1}, 2, 40, 6, 1, 12),
        ({"TRAIN_WORKERS": 30}, 2, 16, 8, 4, 16),
        ({"TRAIN_WORKERS": 0, "VAL_WORKERS": 2}, 1, 8, 0, 2, 0),
    ],
)
def test_worker_table(settings, gpus, cpus, train, val, total):
    workers = resolve_workers(DataloaderSettings.model_validate(settings), gpus, cpus)
    assert (workers.train, workers.val, workers.total) == (train, val, total)


def test_shares_are_not_lost_to_binary_rounding():
    settings = DataloaderSettings.model_validate({"TOTAL_WORKERS": "cpu*0.7"})
    assert resolve_workers(settings, 1, 10).train == 7


def test_start_lines_hold_the_resolved_numbers():
    lines = resolve_workers(DataloaderSettings(), 3, 40).describe(1, 4, 2)
    text = "\n".join(lines)
    assert "CPUs this process may use: 40" in text
    assert "training workers: 30 (for 3" in text
    assert lines.index("  - num_workers: 10 (per GPU)") < lines.index(
        "  - num_workers: 5 (per GPU)"
    )
