"""Start a training run, or continue it, and publish its result.

The launcher does not import PyTorch, so that it starts at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from vrtspike.cluster.slurm_job import requeue
from vrtspike.cluster.time_limit import time_limit
from vrtspike.config.loading import require_trainable
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.launching.end_hook import run_end_hook
from vrtspike.launching.machines import Machines, train_on_machines
from vrtspike.launching.signals import EXIT_RESUMABLE
from vrtspike.monitoring.display import Messages
from vrtspike.runs.file_names import LAUNCHER_LOCK
from vrtspike.runs.folder import is_finished, lock_run, read_record, set_aside
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.published import publish
from vrtspike.runs.training_code import code_changes
from vrtspike.system.errors import first_few

LAUNCHER_TIMEOUT_S = 7 * 86400.0
"""Seconds that a launcher waits for another one; a batch system's time limit is shorter."""


@dataclass(frozen=True)
class Launch:
    """A training to launch.

    Attributes:
        preset: name of the preset.
        configfile: workflow configuration files, later ones win.
        config: values that override them.
        dataset: the manifest of the data set.
        output: folder of the published result.
        gpus: number of GPUs; None takes GPUS of the configuration.
        max_gpus: upper limit for ``auto``; None for all that are free.
        retrain: if true, a run whose code has changed is set aside and trained from the start.
        log: file for the complete log, emptied when training starts, once no other launcher holds
            the run; a launcher of a finished run appends to it. None logs to standard output.
    """

    preset: str
    configfile: Sequence[str | Path]
    config: Mapping[str, Any]
    dataset: Path
    output: Path
    gpus: int | Literal["auto"] | None = None
    max_gpus: int | None = None
    retrain: bool = False
    log: Path | None = None


def launch(program: Path, request: Launch) -> int:
    """Train, or continue, publish the result, and run LOG.ON_END.

    Args:
        program: the training program.
        request: the training.

    Returns:
        the exit status: 0 when the result is published, ``EXIT_RESUMABLE`` when the run was
        stopped and saved, ``EXIT_USER_ERROR`` when the trainer has explained what is wrong, 1 when
        it failed.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if devices or data are missing.
    """
    workflow = load_workflow(request.configfile, request.config)
    settings = workflow.preset(request.preset)
    require_trainable(settings)
    run = identify(request.preset, settings, request.dataset)
    folder = Path(workflow.settings.RUNS) / run.name / run.fingerprint
    gpus = workflow.settings.GPUS if request.gpus is None else request.gpus
    machines = Machines(gpus, workflow.settings.NODES, request.max_gpus)
    messages = Messages(request.log)
    code_message = _compare_code(folder, program, settings.TASK, request)
    if request.log is not None:
        request.log.parent.mkdir(parents=True, exist_ok=True)
    # A batch job keeps running when the Snakemake that submitted it is killed. The next Snakemake
    # submits another job for the same run, which waits here before it takes a GPU. Until then the
    # log is that of the running job.
    with lock_run(folder, LAUNCHER_TIMEOUT_S, messages.show, LAUNCHER_LOCK):
        was_finished = is_finished(folder)
        # Keep the log of a finished run: its training may have ended while this launcher waited.
        if not was_finished:
            # An error of an earlier start must not look like one of this start.
            messages.empty_log()
        messages.note(f"run folder: {folder}")
        if code_message is not None:
            messages.show(code_message)
        run.write(folder)
        if was_finished:
            publish(folder, request.output)
            messages.note(f"result: {request.output} (the run was finished before)")
            return 0
        limit = time_limit(os.environ)
        record = read_record(folder)
        starts = 0 if record is None else len(record["starts"])
        train = partial(train_on_machines, folder, machines, program, messages, limit)
        status = _train_and_publish(train, run, folder, request.output, messages)
    was_cut_short = status == EXIT_RESUMABLE and limit is not None and limit.reached
    # A job that has not completed a single step would not do so after requeueing either.
    if was_cut_short and has_advanced(folder, starts) and requeue(os.environ):
        messages.show("this job is queued again, where training continues")
    return status


def _train_and_publish(
    train: Callable[[], int], run: RunIdentity, folder: Path, output: Path, messages: Messages
) -> int:
    """Train, publish the result of a finished training, and always run LOG.ON_END.

    Args:
        train: trains, and returns the exit status.
        run: the run.
        folder: folder of the run.
        output: folder of the result.
        messages: receives the path of the result.

    Returns:
        the exit status of the training.
    """
    status = 1  # for LOG.ON_END, if the training raises an error
    try:
        training_status = train()
        if training_status == 0:
            publish(folder, output)
            messages.note(f"result: {output}")
        status = training_status
    finally:
        run_end_hook(run.settings.LOG.ON_END, status, run.name, folder, output, messages)
    return status


def _compare_code(folder: Path, program: Path, task: str, request: Launch) -> str | None:
    """Compare the code with that of the run, which is set aside for retraining if it has changed.

    Returns:
        a message; None if there is nothing to report.
    """
    changed = code_changes(folder, program, task)
    if changed is None:
        return None
    if changed and request.retrain:
        former = set_aside(folder)
        return f"the former run is now {former}: {first_few(changed)}"
    if changed:
        return (
            f"code has changed since this run began: {first_few(changed)}; to train it "
            f"again: snakemake --cores all train_{request.preset} --config RETRAIN={request.preset}"
        )
    if request.retrain:
        return "the run's code has not changed; remove its folder to train it again"
    return None


def has_advanced(folder: Path, starts: int) -> bool:
    """Return whether a run has been started again, and has made a step since.

    Args:
        folder: folder of the run.
        starts: number of its starts before.
    """
    record = read_record(folder)
    if record is None or len(record["starts"]) <= starts:
        return False
    last_start = record["starts"][-1]
    return bool(record["step"] > last_start["step"])
