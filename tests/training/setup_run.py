"""A small run of the forecast objective, for the tests of the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.training.forecast import Forecaster, ForecastObjective, Waves
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.records import read_records
from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.display import Display
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.system.seeds import seed_everything
from vrtspike.training.batches import ShuffledBatches, SizedDataset, ValidationBatches
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.loop import Trainer
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.run_log import RunLog
from vrtspike.training.workers import WorkerCounts

ALONE = DistributedContext(0, 0, 1, 1, torch.device("cpu"))
ACCUMULATION = 2
"""Micro-batches of a step, if settings do not say another number."""


def loading(workers: int) -> WorkerCounts:
    """So many workers for training, and as many for validation."""
    return WorkerCounts(cpus=8, processes=1, train=workers, val=workers)


def batches_of(
    dataset: SizedDataset,
    size: int,
    seed: int = 1,
    *,
    workers: int = 0,
    **loader: Any,
) -> ShuffledBatches:
    """The training batches of a process that trains alone."""
    settings = {"TRAIN": {"BATCH_SIZE": size}, "SEED": seed, "DATALOADER": loader}
    return ShuffledBatches(dataset, RunSettings.model_validate(settings), loading(workers), ALONE)


def forecast_settings(train: dict[str, Any] | None = None, **sections: Any) -> RunSettings:
    values = {
        "BATCH_SIZE": 2,
        "GRADIENT_ACCUMULATION_STEPS": ACCUMULATION,
        "MAX_STEPS": 12,
        "EPOCHS": 50,
        "PRECISION": "32",
        "OPTIM": {"LR": 1e-2},
        "SCHED": {"WARMUP_STEPS": 2},
        "SAVE_EVERY_STEPS": 4,
        "VAL_BATCH_SIZE": 2,
        **(train or {}),
    }
    log = {"VAL_EVERY_STEPS": 5, "TENSORBOARD": False, "MEMORY_EVERY_STEPS": 5}
    return RunSettings.model_validate({"TRAIN": values, "LOG": log, **sections})


def first_micro_batch(step: int, accumulation: int = ACCUMULATION) -> int:
    """The number of a step's first micro-batch; both count from 1."""
    return (step - 1) * accumulation + 1


def last_micro_batch(step: int, accumulation: int = ACCUMULATION) -> int:
    """The number of a step's last micro-batch; both count from 1."""
    return step * accumulation


class Notes(Display):
    """Keeps what a person would be told."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def update(self, line: str, share: float) -> None:
        self.lines.append(line)


def forecast_trainer(
    folder: Path,
    settings: RunSettings,
    *,
    ranks: DistributedContext | None = None,
    objective: ForecastObjective | None = None,
    model: Callable[[], torch.nn.Module] = Forecaster,
    workers: int = 0,
    samples: int = 10,
    fingerprint: str = "test",
    timing: bool = False,
    display: Display | None = None,
    **options: Any,
) -> Trainer:
    ranks = ranks or ALONE
    seed_everything(settings.SEED)
    processes = loading(workers)
    display = display or Display()
    parts = TrainingParts(
        model().to(ranks.device),
        objective or ForecastObjective(),
        ShuffledBatches(Waves(samples), settings, processes, ranks),
        ValidationBatches(Waves(5), settings, processes, ranks),
        **options,
    )
    log = RunLog(
        folder,
        fingerprint,
        settings,
        display,
        enabled=ranks.is_main,
    )
    timer = TimingLogger(folder / "logs", ranks.device, enabled=timing)
    return Trainer(parts, settings, ranks, log, timer)


def train(folder: Path, settings: RunSettings, **options: Any) -> Trainer:
    """Build a trainer and run it, as a process of its own would; it has the ``outcome``."""
    return run(forecast_trainer(folder, settings, **options))


def run(trainer: Trainer) -> Trainer:
    with StopRequest() as stop:
        trainer.outcome = trainer.run(stop)  # type: ignore[attr-defined]
    trainer.log.close()
    trainer.timing.close()
    return trainer


def records(folder: Path, *, timeless: bool = True) -> list[dict[str, Any]]:
    """The metrics of a run, without what depends on the clock."""
    lines = read_records(folder / "metrics.jsonl")
    if timeless:
        for line in lines:
            for name in ("time", "seconds", "samples_per_second", "data_ms"):
                line.pop(name, None)
    return lines
