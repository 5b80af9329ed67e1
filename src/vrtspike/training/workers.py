"""How many worker processes read the data: the one place that decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrtspike.cpus import available_cpus

if TYPE_CHECKING:
    from vrtspike.config.run_schema import DataloaderSettings

MIN_WORKERS = 4
"""Training workers each GPU gets at least, as long as there are CPUs for them."""

AUTO_SHARE = 0.8
"""Share of the CPUs that TOTAL_WORKERS ``auto`` takes."""


@dataclass(frozen=True)
class Workers:
    """Worker processes; ``train`` and ``val`` are for each GPU."""

    cpus: int
    """CPUs this process may use."""
    gpus: int
    """Processes that train on this machine: its GPUs in use, or 1 on a CPU."""
    train: int
    val: int

    @property
    def total(self) -> int:
        """Training workers of the machine."""
        return self.train * self.gpus

    def describe(self, batch_size: int, train_prefetch: int, val_prefetch: int) -> list[str]:
        """The lines that are printed when training starts."""
        return [
            "========== data loading ==========",
            f"CPUs this process may use: {self.cpus}",
            f"training workers: {self.total} (for {self.gpus} GPU or CPU processes)",
            "training loader:",
            f"  - batch_size: {batch_size} (per GPU)",
            f"  - num_workers: {self.train} (per GPU)",
            f"  - prefetch_factor: {train_prefetch}",
            "validation loader:",
            f"  - num_workers: {self.val} (per GPU)",
            f"  - prefetch_factor: {val_prefetch}",
            "==================================",
        ]


def resolve_workers(settings: DataloaderSettings, gpus: int, cpus: int | None = None) -> Workers:
    """Turn the DATALOADER settings into numbers of processes for this machine.

    TOTAL_WORKERS (``auto`` is 80 % of the CPUs) is shared among the GPUs; each gets at least 4, but
    all together never more than the CPUs this process may use. Validation gets half of a GPU's
    training workers. TRAIN_WORKERS and VAL_WORKERS replace these numbers within the same bound. On
    a machine with a single CPU, and where 0 is asked for, the training process reads itself.

    Args:
        settings: DATALOADER.
        gpus: processes that train on this machine; 0 (no GPU) counts as 1.
        cpus: CPUs to count with; None asks :func:`available_cpus`.

    >>> from vrtspike.config.run_schema import DataloaderSettings
    >>> resolve_workers(DataloaderSettings(), gpus=3, cpus=40)
    Workers(cpus=40, gpus=3, train=10, val=5)
    """
    cpus = available_cpus() if cpus is None else cpus
    gpus = max(1, gpus)
    most = cpus // gpus if cpus > 1 else 0
    total = _total(settings.TOTAL_WORKERS, cpus)
    shared = max(MIN_WORKERS, total // gpus) if total > 0 else 0
    train = shared if settings.TRAIN_WORKERS == "auto" else settings.TRAIN_WORKERS
    train = min(train, most)
    val = max(1, train // 2) if train > 0 else 0
    if settings.VAL_WORKERS != "auto":
        val = min(settings.VAL_WORKERS, most)
    return Workers(cpus=cpus, gpus=gpus, train=train, val=val)


def _total(asked: int | str, cpus: int) -> int:
    if asked == "auto":
        return max(1, int(AUTO_SHARE * cpus))
    if isinstance(asked, str):
        # Rounding first: 0.7 * 10 is 6.999... in binary.
        return max(1, int(round(float(asked.removeprefix("cpu*")) * cpus, 6)))
    return asked
