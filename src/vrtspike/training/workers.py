"""Data loading workers: their number, start and end, and batches in shared memory."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver, util
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import default_collate, get_worker_info

from vrtspike.cluster.signals import HANDLED_SIGNALS, handled, ignore
from vrtspike.system.cpus import available_cpus
from vrtspike.system.endings import exit_with_process

if TYPE_CHECKING:
    from vrtspike.config.run_schema import DataloaderSettings, RunSettings

MIN_WORKERS = 4
"""Training workers of each GPU at least, if there are CPUs for them."""

_MAX_SOCKET_FOLDER = 107 - len("/pymp-12345678/listener-12345678")
"""Longest folder, in bytes, whose Unix sockets have paths that the system accepts."""

AUTO_SHARE = 0.8
"""Share of the CPUs for TOTAL_WORKERS ``auto``."""


@dataclass(frozen=True)
class Workers:
    """Numbers of worker processes; ``train`` and ``val`` are per GPU."""

    cpus: int
    """CPUs this process may use."""
    gpus: int
    """Training processes on this machine: the GPUs in use, or 1 on a CPU."""
    train: int
    val: int

    @property
    def total(self) -> int:
        """Training workers of the machine."""
        return self.train * self.gpus

    def describe(self, settings: RunSettings) -> str:
        """The lines that are shown when training starts."""
        loader = settings.DATALOADER
        return f"""\
========== data loading ==========
CPUs this process may use: {self.cpus}
training workers: {self.total} (for {self.gpus} GPU or CPU processes)
training loader:
  - batch_size: {settings.TRAIN.BATCH_SIZE} (per GPU)
  - num_workers: {self.train} (per GPU)
  - prefetch_factor: {loader.TRAIN_PREFETCH_FACTOR}
validation loader:
  - num_workers: {self.val} (per GPU)
  - prefetch_factor: {loader.VAL_PREFETCH_FACTOR}
=================================="""


def resolve_workers(settings: DataloaderSettings, gpus: int, cpus: int | None = None) -> Workers:
    """Numbers of worker processes for this machine from the DATALOADER settings.

    TOTAL_WORKERS (``auto``: 80 % of the CPUs) is divided among the GPUs. Each gets at least 4, but
    all together at most as many as this process may use CPUs. Validation gets half of a GPU's
    training workers. TRAIN_WORKERS and VAL_WORKERS replace these numbers within the same limit.
    With a single CPU, or if 0 workers are set, the training process loads the data itself.

    Args:
        settings: DATALOADER.
        gpus: training processes on this machine; 0 (no GPU) counts as 1.
        cpus: number of CPUs; None calls :func:`available_cpus`.

    >>> from vrtspike.config.run_schema import DataloaderSettings
    >>> resolve_workers(DataloaderSettings(), gpus=3, cpus=40)
    Workers(cpus=40, gpus=3, train=10, val=5)
    """
    cpus = available_cpus() if cpus is None else cpus
    gpus = max(1, gpus)
    most = cpus // gpus if cpus > 1 else 0
    total = _total_workers(settings.TOTAL_WORKERS, cpus)
    shared = max(MIN_WORKERS, total // gpus) if total > 0 else 0
    train = shared if settings.TRAIN_WORKERS == "auto" else settings.TRAIN_WORKERS
    train = min(train, most)
    val = max(1, train // 2) if train > 0 else 0
    if settings.VAL_WORKERS != "auto":
        val = min(settings.VAL_WORKERS, most)
    return Workers(cpus=cpus, gpus=gpus, train=train, val=val)


def _total_workers(requested: int | str, cpus: int) -> int:
    if requested == "auto":
        return max(1, int(AUTO_SHARE * cpus))
    if isinstance(requested, str):
        # Rounded first, because 0.7 * 10 is 6.999... in binary.
        return max(1, int(round(float(requested.removeprefix("cpu*")) * cpus, 6)))
    return requested


def start_forkserver(modules: Sequence[str]) -> None:
    """Start the fork server of the workers, which imports these modules once.

    It and the workers ignore signals to the process group, which batch systems send: a trainer that
    was asked to stop still needs the batches of its step.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    _use_short_socket_folder()
    _kill_workers_at_exit()
    with handled(HANDLED_SIGNALS, signal.SIG_IGN):
        forkserver.ensure_running()


def _use_short_socket_folder() -> None:
    """Have multiprocessing create its sockets in a folder whose path is short enough."""
    previous = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > _MAX_SOCKET_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        util.get_temp_dir()  # remembered, and inherited by workers
    finally:
        tempfile.tempdir = previous


@contextmanager
def hide_main_script(needed: Callable[..., object]) -> Iterator[None]:
    """Keep worker processes from importing the main script.

    Python imports it in every worker, because objects sent to the worker may be defined there. If a
    script trains at its top level, each worker would train, too.

    Args:
        needed: the class of the data set. If it is defined in the main script, workers need the
            script, which then needs ``if __name__ == "__main__":``.
    """
    main = sys.modules["__main__"]
    if needed.__module__ == "__main__":
        yield
        return
    hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    main.__spec__ = None
    main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


def init_worker(worker: int) -> None:
    """Initialise a worker: ignore signals, and end with the parent.

    PyTorch's workers do not end when their parent was killed while a batch of theirs was waiting.
    """
    ignore(HANDLED_SIGNALS)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        exit_with_process(parent.pid, signal.SIGKILL)


@cache
def _kill_workers_at_exit() -> None:
    """Kill the workers when the parent ends.

    Python sends SIGTERM, which workers ignore, and waits. Handlers run in reverse order of their
    registration, so that this one comes first.
    """
    atexit.register(_kill_workers)


def _kill_workers() -> None:
    for process in multiprocessing.active_children():
        # They only read.
        process.kill()


_ALIGNMENT = 64
"""Tensors start at multiples of this many bytes; the first ones hold the block's flag "in use"."""


class _Slot(NamedTuple):
    """Where a tensor of a batch lies."""

    start: int
    """After the flag."""
    dtype: torch.dtype
    shape: tuple[int, ...]

    def within(self, contents: torch.Tensor) -> torch.Tensor:
        """The tensor."""
        size = torch.Size(self.shape).numel() * self.dtype.itemsize
        return contents[self.start : self.start + size].view(self.dtype).view(self.shape)


class SharedMemoryCollator:
    """Collates samples like ``default_collate``; in workers into reused shared memory."""

    def __init__(self) -> None:
        self._blocks: list[torch.Tensor] = []

    def __call__(self, samples: Sequence[Any]) -> Any:  # noqa: ANN401 - any samples
        """Collate; samples that are not mappings go through ``default_collate``."""
        first = samples[0]
        if get_worker_info() is None or not isinstance(first, Mapping):
            return default_collate(list(samples))
        batch: dict[str, Any] = {}
        size = 0
        for name, value in first.items():
            if isinstance(value, torch.Tensor):
                batch[name] = _Slot(size, value.dtype, (len(samples), *value.shape))
                size += -(-len(samples) * value.nbytes // _ALIGNMENT) * _ALIGNMENT
            else:
                batch[name] = default_collate([sample[name] for sample in samples])
        block = self._free_block(size)
        block[0] = 1
        for name, slot in batch.items():
            if isinstance(slot, _Slot):
                target = slot.within(block[_ALIGNMENT:])
                torch.stack([sample[name] for sample in samples], out=target)
        return _SharedBatch(block, batch)

    def _free_block(self, size: int) -> torch.Tensor:
        """A free block for ``size`` bytes."""
        for block in self._blocks:
            if block[0] == 0 and len(block) >= _ALIGNMENT + size:
                return block
        # Drop blocks that are too small.
        self._blocks = [block for block in self._blocks if len(block) >= _ALIGNMENT + size]
        self._blocks.append(torch.zeros(_ALIGNMENT + size, dtype=torch.uint8).share_memory_())
        return self._blocks[-1]


@dataclass(frozen=True)
class _SharedBatch:
    """A batch in the worker; it is unpickled as a dictionary."""

    block: torch.Tensor
    batch: dict[str, Any]

    def __reduce__(self) -> tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]:
        return _receive, (self.block, self.batch)


def _receive(block: torch.Tensor, batch: dict[str, Any]) -> dict[str, Any]:
    """The batch of a block, which becomes free when the last of its tensors is deleted."""
    memory = block.numpy()
    # The array that torch keeps alive as long as any tensor uses its memory.
    contents = memory[_ALIGNMENT:]
    weakref.finalize(contents, memory[:1].fill, 0).atexit = False
    tensor = torch.from_numpy(contents)
    return {k: v.within(tensor) if isinstance(v, _Slot) else v for k, v in batch.items()}
