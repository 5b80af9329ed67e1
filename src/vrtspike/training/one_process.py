"""One process of a run: its surroundings, a trainer at work, and the run's final records."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import RunError
from vrtspike.launching.signals import StopRequest
from vrtspike.launching.status import report_begin
from vrtspike.monitoring.display import LOG_FILE, Display, open_display
from vrtspike.monitoring.environment import describe_environment
from vrtspike.monitoring.memory import gpu_categories, write_snapshot
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.runs.folder import hold_run
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import LOGS
from vrtspike.runs.record import RunRecord
from vrtspike.training.batches import Batches, ValidationBatches
from vrtspike.training.compiling import Compiler, compile_whole
from vrtspike.training.distributed import Ranks, join
from vrtspike.training.loop import Trainer
from vrtspike.training.run_log import RunLog
from vrtspike.training.seeding import seed_everything
from vrtspike.training.tasks import Task
from vrtspike.training.trackers import Tracker, open_trackers
from vrtspike.training.workers import Workers, resolve_workers

MEMORY_ADVICE = (
    "The memory of the device is full. Lower TRAIN.BATCH_SIZE and raise "
    "TRAIN.GRADIENT_ACCUMULATION_STEPS by the same factor, or set TRAIN.OPTIM.TYPE to adamw8bit."
)


@dataclass(frozen=True)
class Trainable:
    """What is trained: all that one process needs to know of it.

    Attributes:
        model: on the device of the process.
        task: from batch to loss, from batch to metrics.
        training: the training batches.
        validation: the validation batches of this process; None for no validation.
        compiler: compiles the model, where the settings ask for it.
        note: one line on how the model computes, for the log of the run.
        memory_advice: which keys to change, in this order, when the memory of the device is full.
    """

    model: nn.Module
    task: Task
    training: Batches
    validation: ValidationBatches | None
    compiler: Compiler = compile_whole
    note: str = ""
    memory_advice: str = MEMORY_ADVICE


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: ``finished``, or ``interrupted`` and saved: the same call continues it.
        step: finished optimiser steps.
        metrics: of the last validation.
        model: the model that validation saw, with its final weights.
    """

    status: Literal["finished", "interrupted"]
    step: int
    metrics: dict[str, float]
    model: nn.Module


def train_run(
    run: RunIdentity,
    folder: Path,
    build: Callable[[Ranks, Workers], Trainable],
    *,
    device: str | None = None,
    **facts: Any,  # noqa: ANN401 - JSON values
) -> Outcome:
    """Train a run, or continue it, as one of the processes that ``torchrun`` started (or alone).

    Args:
        run: its name, settings and fingerprint.
        folder: of the run; locked meanwhile.
        build: makes the problem, once the process knows its device; random numbers are seeded.
        device: ``cpu`` or ``cuda``; None takes a CUDA device where there is one.
        facts: for the run's record.

    Raises:
        RunError: if the folder is taken or holds another run, or the device's memory is full.
    """
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        ranks = stack.enter_context(join(device))
        display = open_display(ranks.is_main, log=os.environ.get(LOG_FILE))
        stack.callback(display.close)
        _hold(folder, ranks, display, stack)
        report_begin()
        set_arithmetic(run.settings, ranks.device)
        seed_everything(run.settings.SEED)
        workers = resolve_workers(run.settings.DATALOADER, ranks.local_world_size)
        display.note(_describe(workers, run.settings))
        problem = build(ranks, workers)
        if problem.note:
            display.note(problem.note)
        timing = _timing(run.settings, folder, ranks, display)
        record = RunRecord(folder, ranks.is_main)
        board = run.settings.LOG.TENSORBOARD
        trackers = open_trackers(run, folder, display.tell) if ranks.is_main else []
        for tracker in trackers:
            stack.callback(_close_tracker, tracker, record)
        log = RunLog(folder, run.fingerprint, ranks.is_main, board, display, record, trackers)
        stack.callback(log.close)
        trainer = Trainer(
            model=problem.model,
            task=problem.task,
            batches=problem.training,
            validation=problem.validation,
            settings=run.settings,
            ranks=ranks,
            log=log,
            timing=timing,
            display=display,
            compiler=problem.compiler,
        )
        _begin(run, trainer, record, facts)
        return _train(trainer, record, stop, problem.memory_advice)


def _close_tracker(tracker: Tracker, record: RunRecord) -> None:
    tracker.close(record.is_finished)


def _begin(run: RunIdentity, trainer: Trainer, record: RunRecord, facts: dict[str, Any]) -> None:
    """Say and record what is about to be trained."""
    ranks = trainer.ranks
    parameters = sum(p.numel() for p in trainer.model.parameters())
    trainer.display.tell(
        f"{run.name} ({run.fingerprint}): {parameters / 1e6:.2f} M parameters, "
        f"{trainer.precision.name}, {ranks.world_size} x {ranks.device.type}, "
        f"steps {trainer.progress.step} to {trainer.total}, {trainer.micro_batches} batches of "
        f"{run.settings.TRAIN.BATCH_SIZE} a step"
    )
    if ranks.device.type == "cuda":
        trainer.display.note(
            f"TRAIN.CUDA_GRAPH {run.settings.TRAIN.CUDA_GRAPH}: {trainer.micro_steps.note}"
        )
    record.start(
        run,
        trainer.progress.step,
        environment=describe_environment(ranks.device),
        parameters=parameters,
        precision=trainer.precision.name,
        processes=ranks.world_size,
        micro_batches=trainer.micro_batches,
        total_steps=trainer.total,
        **facts,
    )
    trainer.log.memory(trainer.progress.step, ranks.device)


def _train(trainer: Trainer, record: RunRecord, stop: StopRequest, advice: str) -> Outcome:
    """Run the trainer; leaves records and weights however it ends."""
    log, timing, device = trainer.log, trainer.timing, trainer.ranks.device
    try:
        status = trainer.run(stop)
    except torch.OutOfMemoryError as error:
        record.update("failed", trainer.progress.step, failure=str(error))
        contents = gpu_categories(trainer.model, trainer.optimizer, device)
        snapshot = write_snapshot(log.folder / LOGS, contents, device)
        raise RunError(f"{error}\n{advice} What filled it: {snapshot}") from error
    except BaseException as error:
        record.update("failed", trainer.progress.step, failure=f"{type(error).__name__}: {error}")
        raise
    finally:
        timing.print_summary()
        timing.close()
    log.gpu_categories(gpu_categories(trainer.model, trainer.optimizer, device))
    if status == "finished":
        log.final(trainer.trained_model())
    progress = trainer.progress
    record.update(status, progress.step, **progress.figures())
    return Outcome(status, progress.step, progress.metrics, trainer.trained_model())


def _describe(workers: Workers, settings: RunSettings) -> str:
    loader = settings.DATALOADER
    lines = workers.describe(
        settings.TRAIN.BATCH_SIZE, loader.TRAIN_PREFETCH_FACTOR, loader.VAL_PREFETCH_FACTOR
    )
    return "\n".join(lines)


def _timing(settings: RunSettings, folder: Path, ranks: Ranks, display: Display) -> TimingLogger:
    log = settings.LOG
    return TimingLogger(
        folder / LOGS,
        ranks.device,
        enabled=log.ENABLE_TIMING_LOG and ranks.is_main,
        console=log.TIMING_CONSOLE and display,
        file=log.TIMING_FILE,
        console_interval=log.TIMING_CONSOLE_INTERVAL,
        file_interval=log.TIMING_FILE_INTERVAL,
    )


def _hold(folder: Path, ranks: Ranks, display: Display, stack: ExitStack) -> None:
    """Lock the run on the first process; all fail together if it is taken."""
    fault: str | None = None
    if ranks.is_main:
        try:
            stack.enter_context(hold_run(folder, note=display.note))
        except RunError as error:
            fault = str(error)
    fault = ranks.gather(fault)[0]
    if fault is not None:
        raise RunError(fault)


def set_arithmetic(settings: RunSettings, device: torch.device) -> None:
    """Choose PyTorch's kernels for a run, for the whole process.

    Args:
        settings: ``DETERMINISTIC`` is read.
        device: where the run computes.
    """
    if settings.DETERMINISTIC:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # On CUDA the gradient of sampling a picture (warps) has no deterministic form in PyTorch: a
        # warning names it, where an error would leave nothing to train.
        torch.use_deterministic_algorithms(True, warn_only=device.type == "cuda")
    elif device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    # The gradient of a weight sums over all tokens of a clip: partial sums of a product whose
    # operands are of half precision stay in float32, and the whole is rounded once.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
