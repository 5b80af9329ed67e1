from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from vrtspike.training.parcels import Parcels

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


class Growing(Mixed):
    def __getitem__(self, index):
        return {"values": torch.full((1 + index, 2), index)}


class Uneven(Mixed):
    def __getitem__(self, index):
        return {"values": torch.zeros(1 + index % 2)}


class Pairs(Mixed):
    def __getitem__(self, index):
        return index, torch.tensor(index)


def batches(dataset, size, workers, collate):
    return DataLoader(
        dataset,
        size,
        num_workers=workers,
        collate_fn=collate,
        multiprocessing_context="forkserver" if workers else None,
    )


def same(first, second):
    assert list(first) == list(second)
    for name, value in first.items():
        if isinstance(value, torch.Tensor):
            assert (value.dtype, value.shape) == (second[name].dtype, second[name].shape)
            assert torch.equal(value, second[name])
        else:
            assert value == second[name]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("dataset", "size"), [(Mixed(), 4), (Growing(), 1)])
def test_batches_are_those_of_torch_and_stay_as_long_as_they_are_kept(dataset, size, workers):
    expected = list(batches(dataset, size, 0, None))
    # All are kept until the last has come: none may lie in memory that another one reused.
    found = list(batches(dataset, size, workers, Parcels()))
    assert len(found) == len(expected)
    for first, second in zip(expected, found, strict=True):
        same(first, second)


def shared_blocks(process):
    """Blocks of torch's shared memory that a process has in its address space."""
    lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return len({line.split()[4] for line in lines if "/torch_" in line})


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_worker_reuses_its_memory_but_not_what_a_slice_still_refers_to():
    before = set(multiprocessing.active_children())
    loader = iter(batches(Mixed(), 1, 1, Parcels()))
    first = next(loader)
    kept = first["frames"][0, 1]
    expected = kept.clone()
    del first
    for _ in range(SAMPLES - 4):
        next(loader)
    (worker,) = set(multiprocessing.active_children()) - before
    assert 2 <= shared_blocks(worker) <= 5
    assert torch.equal(kept, expected)


def test_samples_that_do_not_fit_together_are_an_error():
    with pytest.raises(RuntimeError, match="equal size"):
        list(batches(Uneven(), 2, 1, Parcels()))


def test_other_samples_are_left_to_torch():
    first = next(iter(batches(Pairs(), 3, 1, Parcels())))
    assert [values.tolist() for values in first] == [[0, 1, 2], [0, 1, 2]]
