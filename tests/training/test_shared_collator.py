from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tests.training.test_loop import assert_same
from vrtspike.training.workers import SharedMemoryCollator

SAMPLES = 60


class Mixed(Dataset):
    """Samples with tensors of several types, numbers and text."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        random = np.random.default_rng(index)
        return {
            "name": f"s{index}",
            "frames": torch.from_numpy(random.integers(0, 256, (3, 7, 5), dtype=np.uint8)),
            "start": index,
            "steps": torch.arange(index, index + 3, dtype=torch.int32),
            "rate": torch.tensor(index / 3, dtype=torch.float64),
        }


def batches(dataset, size, workers, collate):
    return DataLoader(
        dataset,
        size,
        num_workers=workers,
        collate_fn=collate,
        multiprocessing_context="forkserver" if workers else None,
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_torch_and_stay_as_long_as_they_are_kept(workers):
    expected = list(batches(Mixed(), 4, 0, None))
    # All are kept until the last has come: none may lie in memory that another one reused.
    found = list(batches(Mixed(), 4, workers, SharedMemoryCollator()))
    assert len(found) == len(expected)
    for first, second in zip(expected, found, strict=True):
        assert list(first) == list(second)
        assert_same(first, second)


def shared_blocks(process):
    """Blocks of torch's shared memory that a process has in its address space."""
    lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return len({line.split()[4] for line in lines if "/torch_" in line})


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_worker_reuses_its_memory_but_not_what_a_slice_still_refers_to():
    before = set(multiprocessing.active_children())
    loader = iter(batches(Mixed(), 1, 1, SharedMemoryCollator()))
    first = next(loader)
    kept = first["frames"][0, 1]
    expected = kept.clone()
    del first
    for _ in range(SAMPLES - 4):
        next(loader)
    (worker,) = set(multiprocessing.active_children()) - before
    assert 2 <= shared_blocks(worker) <= 5
    assert torch.equal(kept, expected)
