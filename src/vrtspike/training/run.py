"""Train a run, or continue it, as one of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from vrtspike.config.run_schema import LogSettings, unchanged_weights_note
from vrtspike.config.tasks import find_task
from vrtspike.launching.signals import EXIT_RESUMABLE, StopRequest, report_start
from vrtspike.monitoring.display import LOG_FILE_VARIABLE, Display
from vrtspike.monitoring.memory import gpu_categories, write_snapshot
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.runs.file_names import LOGS, WEIGHTS
from vrtspike.runs.folder import lock_run
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import RunError
from vrtspike.system.seeds import seed_everything
from vrtspike.training.distributed import DistributedContext, join_process_group
from vrtspike.training.environment import describe_environment
from vrtspike.training.loop import Trainer
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.optimizers import warmup_steps
from vrtspike.training.precision import set_numerics
from vrtspike.training.run_log import RunLog
from vrtspike.training.trackers import open_trackers
from vrtspike.training.workers import WorkerCounts, resolve_worker_counts


@dataclass(frozen=True)
class TrainingOutcome:
    """Outcome of a run.

    Attributes:
        status: ``finished``, or ``interrupted`` and saved: the same call continues it.
        step: finished optimiser steps.
        metrics: metrics of the last validation.
        model: the model that validation saw, with its final weights; with TRAIN.EARLY_STOPPING
            those of the best validation.
    """

    status: Literal["finished", "interrupted"]
    step: int
    metrics: dict[str, float]
    model: nn.Module


def train_run(
    run: RunIdentity,
    folder: Path,
    build: Callable[[DistributedContext, WorkerCounts], TrainingParts],
    *,
    device: str | None = None,
    begin: Callable[[], Mapping[str, Any]] = dict,
) -> TrainingOutcome:
    """Train a run, or continue it, as one of the processes that ``torchrun`` started (or alone).

    Args:
        run: name, settings and fingerprint of the run.
        folder: folder of the run; locked during training.
        build: function that builds model, objective and batches; called after the random generators
            are seeded.
        device: ``cpu`` or ``cuda``; None takes a CUDA device if there is one.
        begin: function called by the first process once the folder is locked; it returns further
            entries of ``run.json``, JSON values.

    Raises:
        RunError: if the folder is in use or holds another run, or the device's memory is full.
    """
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        ranks = stack.enter_context(join_process_group(device))
        display = Display(sys.stdout if ranks.is_main else None, os.environ.get(LOG_FILE_VARIABLE))
        stack.callback(display.close)
        _lock_run_folder(folder, ranks, display, stack)
        facts = begin() if ranks.is_main else {}
        report_start()
        set_numerics(run.settings, ranks.device)
        seed_everything(run.settings.SEED)
        workers = resolve_worker_counts(run.settings.DATALOADER, ranks.local_world_size)
        display.note(workers.describe(run.settings))
        parts = build(ranks, workers)
        if parts.note:
            display.note(parts.note)
        timing = _timing_logger(run.settings.LOG, folder, ranks, display)
        trackers = open_trackers(run, folder, display.show) if ranks.is_main else []
        log = RunLog(
            folder,
            run.fingerprint,
            run.settings,
            display,
            enabled=ranks.is_main,
            trackers=trackers,
        )
        stack.callback(log.close)
        trainer = Trainer(parts, run.settings, ranks, log, timing)
        _announce(run, trainer, facts)
        return _train(trainer, stop)


def train_preset(
    run: RunIdentity, folder: Path, record_code: Callable[[], Sequence[str]] = list
) -> int:
    """Train the run of a preset, as one of the processes that torchrun started.

    Args:
        run: identity of the run.
        folder: folder of the run.
        record_code: function called by the first process once the folder is locked; it returns the
            source files that have changed since the run began, for ``run.json``.

    Returns:
        0 when the run is finished, :data:`EXIT_RESUMABLE` when it was stopped and saved.

    Raises:
        UserError: if the data, weights or settings cannot be used; the same on all processes if it
            concerns all of them.
    """

    def begin() -> Mapping[str, Any]:
        return {"code_changed": list(record_code())}

    task = find_task(run.settings.TASK)
    outcome = train_run(run, folder, partial(task.build, run), begin=begin)
    return 0 if outcome.status == "finished" else EXIT_RESUMABLE


def _timing_logger(
    keys: LogSettings, folder: Path, ranks: DistributedContext, display: Display
) -> TimingLogger:
    """Return the timing logger of a run by the section LOG."""
    return TimingLogger(
        folder / LOGS if keys.TIMING_FILE else None,
        ranks.device,
        enabled=keys.ENABLE_TIMING_LOG and ranks.is_main,
        console=display if keys.TIMING_CONSOLE else None,
        console_interval=keys.TIMING_CONSOLE_INTERVAL,
        file_interval=keys.TIMING_FILE_INTERVAL,
    )


def _announce(run: RunIdentity, trainer: Trainer, facts: Mapping[str, Any]) -> None:
    """Show and record what is trained."""
    ranks = trainer.ranks
    parameters = sum(p.numel() for p in trainer.learner.model.parameters())
    if run.settings.unchanged_weights is None:
        warmup = warmup_steps(trainer.settings.TRAIN.SCHED, trainer.total_steps)
        plan = (
            f"{trainer.learner.precision.name}, {ranks.world_size} x {ranks.device.type}, "
            f"steps {trainer.counters.step} to {trainer.total_steps}, {warmup} of them warm-up, "
            f"{trainer.micro_batches_per_step} batches of "
            f"{trainer.settings.TRAIN.BATCH_SIZE} a step"
        )
    else:
        plan = f"{unchanged_weights_note(run.settings.unchanged_weights)} (TRAIN.MAX_STEPS is 0)"
    trainer.display.show(
        f"{run.name} ({run.fingerprint}): {parameters / 1e6:.2f} M parameters, {plan}"
    )
    trainer.log.record.start(
        trainer.counters.step,
        # A run of `fit` has no settings.json.
        name=run.name,
        fingerprint=run.fingerprint,
        dataset=run.dataset,
        environment=describe_environment(ranks.device),
        parameters=parameters,
        precision=trainer.learner.precision.name,
        processes=ranks.world_size,
        micro_batches=trainer.micro_batches_per_step,
        total_steps=trainer.total_steps,
        **facts,
    )


def _train(trainer: Trainer, stop: StopRequest) -> TrainingOutcome:
    """Run the trainer; record its ending, also after an error, and write the final weights."""
    log = trainer.log
    timing = trainer.timing
    device = trainer.ranks.device
    counters = trainer.counters
    try:
        status = trainer.run(stop)
    except torch.OutOfMemoryError as error:
        log.record.update("failed", counters.step, failure=str(error))
        contents = gpu_categories(trainer.learner.model, trainer.learner.optimizer, device)
        snapshot = write_snapshot(log.folder / LOGS, contents, device)
        changes = "".join(f"\n  - {change}" for change in trainer.settings.memory_saving_changes)
        raise RunError(
            f"{error}\nThe memory of the device is full, its contents: {snapshot}. In this order, "
            f"what saves some:{changes}\n  - end other programs on the device, or take a larger one"
        ) from error
    except BaseException as error:
        log.record.update("failed", counters.step, failure=f"{type(error).__name__}: {error}")
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            reason = str(error).splitlines()[0]
            raise RunError(
                f"PyTorch does not compile this model here ({reason}); set TRAIN.COMPILE_MODEL: "
                "false"
            ) from error
        raise
    finally:
        timing.print_summary()
        timing.close()
    log.write_gpu_categories(
        gpu_categories(trainer.learner.model, trainer.learner.optimizer, device)
    )
    if status == "finished":
        if trainer.settings.TRAIN.EARLY_STOPPING is not None:
            trainer.load_best()
        log.write_weights(trainer.learner.trained_model(), WEIGHTS)
    log.record.update(status, counters.step, **counters.entries())
    return TrainingOutcome(status, counters.step, counters.metrics, trainer.learner.trained_model())


def _lock_run_folder(
    folder: Path, ranks: DistributedContext, display: Display, stack: ExitStack
) -> None:
    """Lock the run folder in the first process; all processes fail if it is in use."""
    fault: str | None = None
    if ranks.is_main:
        try:
            stack.enter_context(lock_run(folder, note=display.note))
        except RunError as error:
            fault = str(error)
    fault = ranks.gather(fault)[0]
    if fault is not None:
        raise RunError(fault)
