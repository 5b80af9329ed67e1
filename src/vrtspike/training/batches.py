"""Samples of each micro-batch of a run, and the processes that load them.

Micro-batch ``n`` of a run is a pure function of (seed, n). The numbers of processes, workers and
accumulated micro-batches decide only which process computes it; a run's position is one integer.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.system.errors import RunError
from vrtspike.system.rounding import ceil_div
from vrtspike.system.seeds import mix_seed
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.workers import WorkerCounts, init_worker, start_forkserver

if TYPE_CHECKING:
    from vrtspike.config.run_schema import DataloaderSettings, RunSettings

BatchKey: TypeAlias = tuple[int, list[int]]
"""(epoch, indices of the samples)."""

_ORDER_SEED = 1
"""Last part of the seed of an epoch's order, which makes it another than that of a micro-batch."""

_WORKER_FAILED = re.compile(
    r"DataLoader worker \(pid|shared memory.*No space left|torch_\w+>: No space left", re.DOTALL
)
"""Messages of PyTorch when a worker was killed or shared memory is full."""


class SizedDataset(Protocol):
    """A map-style data set.

    It may have the methods of :class:`EpochDataset`, :class:`BatchDataset`, :class:`CachedDataset`
    and :class:`NamedDataset`, too. They are called in the process that reads a batch.
    """

    def __len__(self) -> int: ...  # noqa: D105

    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401, D105


@runtime_checkable
class EpochDataset(Protocol):
    """A data set whose augmentation may depend on (seed, epoch, index)."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next samples; called before each batch."""


@runtime_checkable
class BatchDataset(Protocol):
    """A data set that makes its batches; PyTorch stacks the samples of others."""

    def read_batch(self, indices: Sequence[int]) -> Any:  # noqa: ANN401 - any batch
        """Return a batch of these samples."""


@runtime_checkable
class CachedDataset(Protocol):
    """A data set with a cache."""

    def cache_stats(self) -> CacheStats | None:
        """Return the counters of the process's cache; None without a cache."""


@runtime_checkable
class NamedDataset(Protocol):
    """A data set whose samples have names in messages; those of others have numbers."""

    def sample_name(self, index: int) -> str:
        """Return the name of a sample."""


class ShuffledBatches:
    """Each sample once per epoch, in a new random order, in the batches of one process.

    Args:
        dataset: map-style data set of training samples.
        settings: batch size, seed and the section DATALOADER. ``SHUFFLE_BLOCK`` successive samples
            stay together (blocks are shuffled, and the samples within each); more than 1 reads
            neighbouring frames together, from fewer chunks, but makes batches less diverse.
        workers: numbers of workers of this machine.
        ranks: the processes of the run.

    Raises:
        RunError: if there are not enough samples for one batch.
    """

    def __init__(
        self,
        dataset: SizedDataset,
        settings: RunSettings,
        workers: WorkerCounts,
        ranks: DistributedContext,
    ) -> None:
        self._reader = _BatchReader(dataset, workers.train)
        self._samples = len(dataset)
        self._batch_size = settings.TRAIN.BATCH_SIZE
        self._seed = settings.SEED
        self._settings = settings
        self._ranks = ranks
        self._workers = workers.train
        self.per_epoch = self._samples // self._batch_size
        """Micro-batches of one epoch, of all processes together."""
        if self._samples % self._batch_size and not settings.DATALOADER.DROP_LAST:
            self.per_epoch += 1
        if self.per_epoch == 0:
            advice = "lower TRAIN.BATCH_SIZE or add data" if self._samples else "add data"
            raise RunError(
                f"the training split has {self._samples} samples, but TRAIN.BATCH_SIZE is "
                f"{self._batch_size} and an incomplete batch is dropped; {advice}"
            )

    def keys(self, first: int, stride: int, end: int) -> Iterator[BatchKey]:
        """Yield keys of micro-batches ``first``, ``first + stride`` ... below ``end``."""
        numbers = range(first, end, stride)
        for epoch, numbers_of_epoch in groupby(numbers, lambda number: number // self.per_epoch):
            order = self._order(epoch)
            for number in numbers_of_epoch:
                start = number % self.per_epoch * self._batch_size
                yield epoch, order[start : start + self._batch_size]

    def stream(self, first: int, stride: int, end: int) -> Iterator[Any]:
        """Return micro-batches ``first``, ``first + stride`` ... below ``end``."""
        keys = self.keys(first, stride, end)
        loader = _loader(self._reader, keys, self._settings.DATALOADER, self._ranks, self._workers)
        return _explain_failures(iter(loader), self._settings, ("TRAIN",))

    def cache_stats(self) -> CacheStats | None:
        """Return the use of the cache by this process and its workers; None without a cache."""
        return self._reader.cache_stats()

    def _order(self, epoch: int) -> list[int]:
        """Return the indices of all samples in the order of an epoch."""
        generator = torch.Generator().manual_seed(mix_seed(self._seed, epoch, _ORDER_SEED))
        blocks = torch.arange(self._samples).split(self._settings.DATALOADER.SHUFFLE_BLOCK)
        shuffled = [blocks[number] for number in torch.randperm(len(blocks), generator=generator)]
        order = [block[torch.randperm(len(block), generator=generator)] for block in shuffled]
        return torch.cat(order).tolist()


class NoBatches:
    """The training batches of a run that trains nothing."""

    per_epoch = 0

    def stream(self, first: int, stride: int, end: int) -> Iterator[Any]:
        """Return no batches."""
        return iter(())

    def cache_stats(self) -> CacheStats | None:
        """Return None: there is no cache."""
        return None


class ValidationBatches:
    """The validation samples of one process: every sample belongs to exactly one process.

    Args:
        dataset: map-style data set of validation samples.
        settings: batch size and the section DATALOADER.
        workers: numbers of workers of this machine.
        ranks: the processes of the run.

    Raises:
        RunError: if there are no samples.
    """

    def __init__(
        self,
        dataset: SizedDataset,
        settings: RunSettings,
        workers: WorkerCounts,
        ranks: DistributedContext,
    ) -> None:
        if len(dataset) == 0:
            raise RunError("the validation split has no samples; add data, or leave validation out")
        size = settings.TRAIN.VAL_BATCH_SIZE
        indices = list(range(ranks.rank, len(dataset), ranks.world_size))
        self._keys = [(0, indices[start : start + size]) for start in range(0, len(indices), size)]
        max_samples = ceil_div(len(dataset), ranks.world_size)
        self.rounds = ceil_div(max_samples, size)
        """Batches of the process with the most of them."""
        self._settings = settings
        self._reader = _BatchReader(dataset, workers.val)
        self._loader = _loader(
            self._reader,
            self._keys,
            settings.DATALOADER,
            ranks,
            workers.val,
            validation=True,
        )

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of one validation."""
        # Training workers hold the batches that they have read ahead meanwhile.
        return _explain_failures(iter(self._loader), self._settings, ("VAL", "TRAIN"))

    def sample_names(self, number: int) -> str:
        """Return the names of the samples of a batch of this process, for messages."""
        _, indices = self._keys[number]
        return ", ".join(map(self._reader.sample_name, indices))


class _BatchReader(Dataset[Any]):
    """The batches of a data set by their keys, and the cache counters of each reading process."""

    def __init__(self, dataset: SizedDataset, workers: int) -> None:
        self.module = type(dataset).__module__
        self._dataset = dataset
        shape = (max(1, workers), len(CacheStats._fields))
        self._uses = torch.zeros(shape, dtype=torch.int64).share_memory_()

    def cache_stats(self) -> CacheStats | None:
        """Return the sum over all reading processes; None without a cache."""
        if self._cache_of_process() is None:
            return None
        return CacheStats(*self._uses.sum(dim=0).tolist())

    def __getitem__(self, key: BatchKey) -> Any:  # noqa: ANN401 - any batch
        epoch, indices = key
        if isinstance(self._dataset, EpochDataset):
            self._dataset.set_epoch(epoch)
        if isinstance(self._dataset, BatchDataset):
            batch = self._dataset.read_batch(indices)
        else:
            batch = default_collate([self._dataset[index] for index in indices])
        self._note_cache_stats(self._cache_of_process())
        return batch

    def sample_name(self, index: int) -> str:
        """Return the name of a sample for messages."""
        if isinstance(self._dataset, NamedDataset):
            return self._dataset.sample_name(index)
        return f"sample {index}"

    def _cache_of_process(self) -> CacheStats | None:
        """Return the cache counters of this process; None without a cache."""
        if isinstance(self._dataset, CachedDataset):
            return self._dataset.cache_stats()
        return None

    def _note_cache_stats(self, use: CacheStats | None) -> None:
        """Share the cache counters of this process with the process that trains."""
        if use is None:
            return
        worker = get_worker_info()
        number = 0 if worker is None else worker.id
        self._uses[number] = torch.tensor(use)


def _explain_failures(
    batches: Iterator[Any], settings: RunSettings, loaders: Sequence[Literal["TRAIN", "VAL"]]
) -> Iterator[Any]:
    """Yield batches, and explain errors of the worker processes.

    Args:
        batches: the batches of a loader.
        settings: settings of the run, whose keys can save memory.
        loaders: beginnings of the keys of those loaders whose workers hold memory.

    Raises:
        RunError: if a worker was killed or shared memory is full.
    """
    try:
        yield from batches
    except (RuntimeError, ConnectionError, EOFError) as error:
        # While a tensor is being received, the error comes from the standard library instead.
        source = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        is_of_worker = _WORKER_FAILED.search(str(error)) is not None
        if not is_of_worker and source.parent.name != "multiprocessing":
            raise
        size = system_memory().shared_total or 0
        keys = []
        for loader in loaders:
            keys.append(f"DATALOADER.{loader}_WORKERS")
            prefetch = f"DATALOADER.{loader}_PREFETCH_FACTOR"
            if settings.value(prefetch) > 1:
                keys.append(prefetch)
        if settings.cache_gb > 0:
            keys.append(settings.cache_key)
        raise RunError(
            f"a data loading worker failed, probably because memory or /dev/shm ({size:.0f} MB) is "
            f"full ({error}). Lower {' or '.join(keys)}, which change no result, or start the "
            "container with --shm-size=8g; the same command continues from the last checkpoint"
        ) from error


def _loader(
    reader: _BatchReader,
    keys: Iterable[BatchKey],
    settings: DataloaderSettings,
    ranks: DistributedContext,
    workers: int,
    *,
    validation: bool = False,
) -> DataLoader[Any]:
    """Build a loader of some batches.

    Args:
        reader: reader of the batches.
        keys: keys of the batches.
        settings: prefetching, pinned memory and lifetime of workers.
        ranks: the processes of the run.
        workers: worker processes; 0 loads in this process.
        validation: true for validation samples, whose workers may persist.
    """
    options: dict[str, Any] = {}
    if workers > 0:
        # The server imports modules once; each worker would need seconds for it.
        start_forkserver([__name__, reader.module])
        prefetch = settings.VAL_PREFETCH_FACTOR if validation else settings.TRAIN_PREFETCH_FACTOR
        options = {
            # Array libraries hang in a forked process whose parent has used them.
            "multiprocessing_context": "forkserver",
            "worker_init_fn": init_worker,
            "prefetch_factor": prefetch,
            "persistent_workers": validation and settings.PERSISTENT_WORKERS,
        }
    return DataLoader(
        reader,
        sampler=keys,
        batch_size=None,  # the reader returns whole batches
        num_workers=workers,
        # Pinned memory allows asynchronous copies to a GPU.
        pin_memory=settings.PIN_MEMORY and ranks.device.type == "cuda",
        # Without a generator of its own, every pass draws from the global one.
        generator=torch.Generator(),
        **options,
    )
