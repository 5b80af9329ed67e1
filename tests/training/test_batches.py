"""Batches: order by epoch, division among processes, shuffled blocks and validation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import chain, pairwise

import pytest
import torch

from tests.training.setup_run import ALONE, batches_of, loading
from vrtspike.config.run_schema import RunSettings
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.system.errors import RunError
from vrtspike.training.batches import ShuffledBatches, ValidationBatches


class Recorder:
    """Returns (epoch, index); the epoch arrives through set_epoch, in whichever process."""

    def __init__(self, count: int) -> None:
        self._count, self._epoch = count, -1

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._epoch, index


def keys(batches: ShuffledBatches, first: int, stride: int, until: int) -> list:
    """(epoch, index) of each sample of each batch."""
    return [
        [(epoch, index) for index in indices]
        for epoch, indices in batches.keys(first, stride, until)
    ]


def test_every_epoch_has_each_sample_once_in_an_order_of_its_own():
    batches = batches_of(Recorder(12), 3)
    assert batches.per_epoch == 4
    epochs = [list(chain(*keys(batches, 4 * e, 1, 4 * e + 4))) for e in range(3)]
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == [(number, index) for index in range(12)]
    assert len({tuple(index for _, index in epoch) for epoch in epochs}) == 3
    other = batches_of(Recorder(12), 3, seed=2)
    assert keys(other, 0, 1, 4) != keys(batches, 0, 1, 4)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_processes_share_the_batches_of_one(ranks):
    batches = batches_of(Recorder(10), 3)
    alone = keys(batches, 4, 1, 34)
    shared = [keys(batches, 4 + rank, ranks, 34) for rank in range(ranks)]
    assert [shared[n % ranks][n // ranks] for n in range(30)] == alone


@pytest.mark.parametrize("workers", [0, 2])
def test_stream_delivers_the_keys_in_order_with_their_epochs(workers):
    batches = batches_of(Recorder(5), 2, workers=workers)
    result = [
        list(zip(*(t.tolist() for t in batch), strict=True)) for batch in batches.stream(1, 1, 6)
    ]
    assert result == keys(batches, 1, 1, 6)


class Batched(Recorder):
    """Makes a batch by itself."""

    def read_batch(self, indices: list[int]) -> list[int]:
        return [100 * self._epoch + index for index in indices]

    def cache_stats(self) -> CacheStats | None:
        return None


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_set_may_make_its_batches(workers):
    batches = batches_of(Batched(4), 2, workers=workers)
    first = [sorted(batch) for batch in batches.stream(0, 1, 4)]
    assert sorted(chain(*first[:2])) == [0, 1, 2, 3]
    assert sorted(chain(*first[2:])) == [100, 101, 102, 103]


def test_incomplete_batches():
    assert batches_of(Recorder(5), 2).per_epoch == 2
    whole = batches_of(Recorder(5), 2, DROP_LAST=False)
    assert [len(batch) for batch in keys(whole, 0, 1, 3)] == [2, 2, 1]
    with pytest.raises(RunError, match=r"1 samples.*BATCH_SIZE is 2"):
        batches_of(Recorder(1), 2)
    with pytest.raises(RunError, match=r"0 samples.*BATCH_SIZE is 1 and .* dropped; add data$"):
        batches_of(Recorder(0), 1)


class Cached(Batched):
    """Counts in each process that reads: a chunk a sample, every third is new."""

    reads = 0

    def read_batch(self, indices: list[int]) -> list[int]:
        self.reads += len(indices)
        return super().read_batch(indices)

    def cache_stats(self) -> CacheStats:
        chunks = -(-self.reads // 3)
        return CacheStats(self.reads, chunks, evictions=self.reads // 6, limit_bytes=100)


@pytest.mark.parametrize(("workers", "processes"), [(0, 1), (2, 2)])
def test_use_of_the_cache_is_added_up_over_the_reading_processes(workers, processes):
    batches = batches_of(Cached(16), 2, workers=workers)
    assert batches.cache_stats() == CacheStats(0, 0)
    assert len(list(batches.stream(0, 1, 36))) == 36
    # 72 reads, by each process as many.
    expected = CacheStats(lookups=72, reads=24, evictions=12, limit_bytes=100 * processes)
    assert batches.cache_stats() == expected
    assert batches_of(Batched(16), 2).cache_stats() is None


def test_blocks_of_successive_samples_stay_together():
    batches = batches_of(Recorder(22), 1, seed=3, SHUFFLE_BLOCK=5)
    whole = [index for [(_, index)] in keys(batches, 0, 1, 22)]
    assert sorted(whole) == list(range(22))
    changes = sum(a // 5 != b // 5 for a, b in pairwise(whole))
    assert changes == 4
    assert whole != sorted(whole)
    following = [index for [(_, index)] in keys(batches, 22, 1, 44)]
    assert sorted(following) == list(range(22))
    assert following != whole
    # DistributedContext and resumed runs see parts of the same order.
    assert [key for [key] in keys(batches, 1, 2, 22)] == [(0, index) for index in whole[1::2]]
    # Within a block the order is shuffled as well.
    parts = [[index for index in whole if index // 5 == block] for block in range(5)]
    assert any(part != sorted(part) for part in parts)


@pytest.mark.parametrize(
    ("samples", "size", "world"), [(7, 2, 1), (7, 3, 2), (4, 2, 3), (1, 2, 2), (8, 4, 2)]
)
def test_validation_has_every_sample_on_one_process_and_rounds_enough_for_all(samples, size, world):
    settings = RunSettings.model_validate({"TRAIN": {"VAL_BATCH_SIZE": size}})
    parts = [
        ValidationBatches(
            Recorder(samples), settings, loading(0), replace(ALONE, rank=rank, world_size=world)
        )
        for rank in range(world)
    ]
    result = [[batch[1].tolist() for batch in part] for part in parts]
    assert sorted(chain(*chain(*result))) == list(range(samples))
    assert all(len(batch) <= size for batch in chain(*result))
    assert [part.rounds for part in parts] == [max(map(len, result))] * world
    # In validation, augmentation and crops are those of one epoch.
    assert {epoch for part in parts for batch in part for epoch in batch[0].tolist()} == {0}
    first = ", ".join(f"sample {index}" for index in result[0][0])
    assert parts[0].sample_names(0) == first
    with pytest.raises(RunError, match="the validation split has no samples"):
        ValidationBatches(Recorder(0), settings, loading(0), ALONE)


def test_reading_draws_nothing_from_the_global_generator():
    batches = batches_of(Recorder(6), 2)
    settings = RunSettings.model_validate({"TRAIN": {"VAL_BATCH_SIZE": 2}})
    validation = ValidationBatches(Recorder(4), settings, loading(0), ALONE)
    before = torch.random.get_rng_state()
    assert len(list(batches.stream(0, 1, 5))) == 5
    assert len(list(validation)) == 2
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("device", "pin_memory", "pinned"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_batches_for_a_gpu_come_from_page_locked_memory(device, pin_memory, pinned):
    settings = RunSettings.model_validate({"DATALOADER": {"PIN_MEMORY": pin_memory}})
    ranks = replace(ALONE, device=torch.device(device))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch, *_ = ValidationBatches(Recorder(4), settings, loading(0), ranks)
    # Without a GPU, PyTorch warns that it cannot lock memory.
    is_asked = any("pin_memory" in str(warning.message) for warning in caught)
    is_locked = torch.cuda.is_available() and batch[0].is_pinned()
    assert (is_asked or is_locked) is pinned


@pytest.mark.parametrize(
    "error",
    [
        "DataLoader worker (pid 7) is killed by signal: Bus error.",
        "unable to write to file </torch_7>: No space left on device (28)",
        "unable to allocate shared memory(shm): No space left on device (28)",
    ],
)
def test_a_worker_that_finds_no_memory_is_reported_with_what_to_lower(error):
    class Full(Recorder):
        def __getitem__(self, index):
            raise RuntimeError(error)

    no_cache = r"/dev/shm \(\d+ MB\) is full .*TRAIN_WORKERS or \S+FACTOR, which .*shm-size"
    with pytest.raises(RunError, match=no_cache):
        list(batches_of(Full(4), 2).stream(0, 1, 2))
    with_cache = r"Lower DATALOADER\.TRAIN_WORKERS or DATA\.CACHE_SIZE_GB, which"
    loader = {"TRAIN_WORKERS": 0, "VAL_WORKERS": 0, "TRAIN_PREFETCH_FACTOR": 1}
    settings = DeblurringSettings.model_validate({"DATALOADER": loader})
    with pytest.raises(RunError, match=with_cache):
        list(ShuffledBatches(Full(4), settings, loading(0), ALONE).stream(0, 1, 1))
    of_validation = (
        r"Lower DATALOADER\.VAL_WORKERS or DATALOADER\.VAL_PREFETCH_FACTOR or "
        r"DATALOADER\.TRAIN_WORKERS or DATA\.CACHE_SIZE_GB, which"
    )
    with pytest.raises(RunError, match=of_validation):
        list(ValidationBatches(Full(4), settings, loading(0), ALONE))
