"""Data loading workers: their number, start and end."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, util
from typing import TYPE_CHECKING, Any

from vrtspike.launching.signals import HANDLED_SIGNALS, ignore_signals, signal_handlers
from vrtspike.system.cpus import available_cpus
from vrtspike.system.termination import exit_with_process

if TYPE_CHECKING:
    from vrtspike.config.run_schema import DataloaderSettings, RunSettings

MIN_WORKERS = 4
"""Minimum of training workers of each GPU, if the CPUs suffice and no number is set."""

_MAX_SOCKET_FOLDER = 107 - len("/pymp-12345678/listener-12345678")
"""Maximum length in bytes of a folder whose Unix sockets have paths that the system accepts."""

AUTO_SHARE = 0.8
"""Share of the CPUs for TOTAL_WORKERS ``auto``."""


@dataclass(frozen=True)
class WorkerCounts:
    """Numbers of worker processes.

    Attributes:
        cpus: CPUs this process may use.
        processes: training processes on this machine: one for each GPU in use, or 1 on a CPU.
        train: training workers of each process.
        val: validation workers of each process.
    """

    cpus: int
    processes: int
    train: int
    val: int

    def describe(self, settings: RunSettings) -> str:
        """Return the lines that are shown when training starts."""
        loader = settings.DATALOADER
        return f"""\
========== data loading ==========
CPUs this process may use: {self.cpus}
training workers: {self.train * self.processes} (for {self.processes} GPU or CPU processes)
training loader:
  - batch_size: {settings.TRAIN.BATCH_SIZE} (per GPU)
  - num_workers: {self.train} (per GPU)
  - prefetch_factor: {loader.TRAIN_PREFETCH_FACTOR}
validation loader:
  - num_workers: {self.val} (per GPU)
  - prefetch_factor: {loader.VAL_PREFETCH_FACTOR}
=================================="""


def resolve_worker_counts(
    settings: DataloaderSettings, processes: int, cpus: int | None = None
) -> WorkerCounts:
    """Return the numbers of worker processes for this machine from the DATALOADER settings.

    TOTAL_WORKERS (``auto``: 80 % of the CPUs) is divided among the processes. If it is a share of
    the CPUs, each gets at least 4 workers; if it is a number, at least 1. All together get no more
    than the CPUs of this process. Validation gets half as many, in addition. TRAIN_WORKERS and
    VAL_WORKERS replace these numbers within the same limit. With a single CPU, or if 0 workers are
    set, the training process loads the data itself.

    Args:
        settings: DATALOADER.
        processes: training processes on this machine; 0 (no GPU) counts as 1.
        cpus: number of CPUs; None calls :func:`available_cpus`.

    >>> from vrtspike.config.run_schema import DataloaderSettings
    >>> resolve_worker_counts(DataloaderSettings(), processes=3, cpus=40)
    WorkerCounts(cpus=40, processes=3, train=10, val=5)
    """
    cpus = available_cpus() if cpus is None else cpus
    processes = max(1, processes)
    max_workers = cpus // processes if cpus > 1 else 0
    total = settings.TOTAL_WORKERS
    if isinstance(total, str):
        share = AUTO_SHARE if total == "auto" else float(total.removeprefix("cpu*"))
        # The product is rounded first, because 0.7 * 10 is 6.999... in binary.
        total = max(MIN_WORKERS * processes, int(round(share * cpus, 6)))
    shared = max(1, total // processes) if total > 0 else 0
    train = shared if settings.TRAIN_WORKERS == "auto" else settings.TRAIN_WORKERS
    train = min(train, max_workers)
    val = max(1, train // 2) if train > 0 else 0
    if settings.VAL_WORKERS != "auto":
        val = min(settings.VAL_WORKERS, max_workers)
    return WorkerCounts(cpus=cpus, processes=processes, train=train, val=val)


def start_forkserver(modules: Sequence[str]) -> None:
    """Start the fork server of the workers, which imports these modules once.

    The server and its workers ignore signals to the process group, which batch systems send: a
    trainer that was asked to stop still needs the batches of its step.
    """
    multiprocessing.set_forkserver_preload(list(modules))
    _use_short_socket_folder()
    # Python sends SIGTERM, which workers ignore, and waits. Handlers run in reverse order of their
    # registration, so that this one comes first.
    atexit.register(_kill_workers)
    with signal_handlers(HANDLED_SIGNALS, signal.SIG_IGN):
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
    main = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    if needed.__module__ != "__main__":
        main.pop("__file__", None)
        main["__spec__"] = None
    try:
        yield
    finally:
        main.update(hidden)


def init_worker(worker: int) -> None:
    """Initialise a worker: ignore signals, and end with the parent.

    PyTorch's workers do not end when their parent was killed while a batch of theirs was waiting.
    """
    ignore_signals(HANDLED_SIGNALS)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        exit_with_process(parent.pid, signal.SIGKILL)


def _kill_workers() -> None:
    """Kill the workers when their parent ends."""
    for process in multiprocessing.active_children():
        # Nothing is lost: workers only read.
        process.kill()
