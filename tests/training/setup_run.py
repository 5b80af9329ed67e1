"""A small run of the forecast task, for the tests of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.training.forecast import Forecaster, ForecastTask, Waves
from vrtspike.deblurring.settings import Settings
from vrtspike.monitoring.display import SilentDisplay
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training.batches import LoaderOptions, ShuffledBatches, ValidationBatches
from vrtspike.training.compiling import Compiler, compile_whole
from vrtspike.training.distributed import Ranks
from vrtspike.training.loop import Trainer
from vrtspike.training.run_log import RunLog
from vrtspike.training.seeding import seed_everything


def forecast_settings(train: dict[str, Any] | None = None, **sections: Any) -> Settings:
    values = {
        "BATCH_SIZE": 2,
        "GRADIENT_ACCUMULATION_STEPS": 2,
        "MAX_STEPS": 12,
        "EPOCHS": 50,
        "PRECISION": "32",
        "OPTIM": {"LR": 1e-2},
        "SCHED": {"WARMUP_STEPS": 2},
        "SAVE_EVERY_STEPS": 4,
        **(train or {}),
    }
    log = {"VAL_EVERY_STEPS": 5, "TENSORBOARD": False, "MEMORY_EVERY_STEPS": 5}
    return Settings.model_validate({"TRAIN": values, "LOG": log, **sections})


def forecast_trainer(
    folder: Path,
    settings: Settings,
    *,
    ranks: Ranks | None = None,
    task: ForecastTask | None = None,
    model: Callable[[], torch.nn.Module] = Forecaster,
    workers: int = 0,
    samples: int = 10,
    drop_last: bool = True,
    fingerprint: str = "test",
    timing: bool = False,
    compiler: Compiler = compile_whole,
) -> Trainer:
    ranks = ranks or Ranks(0, 0, 1, 1, torch.device("cpu"))
    seed_everything(settings.SEED)
    options = LoaderOptions(workers)
    train = settings.TRAIN
    display = SilentDisplay()
    return Trainer(
        model=model().to(ranks.device),
        task=task or ForecastTask(),
        batches=ShuffledBatches(
            Waves(samples), train.BATCH_SIZE, settings.SEED, drop_last, options=options
        ),
        validation=ValidationBatches(Waves(5), 2, ranks.rank, ranks.world_size, options),
        settings=settings,
        ranks=ranks,
        log=RunLog(folder, fingerprint, ranks.is_main, settings.LOG.TENSORBOARD, display),
        timing=TimingLogger(folder / "logs", ranks.device, enabled=timing, console=False),
        display=display,
        compiler=compiler,
    )


def records(folder: Path, *, timeless: bool = True) -> list[dict[str, Any]]:
    """The metrics of a run, without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if timeless:
        for line in lines:
            for name in ("time", "seconds", "samples_per_second", "data_ms"):
                line.pop(name, None)
    return lines
