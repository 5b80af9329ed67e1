"""Start a training run, or continue it, and publish its result.

The launcher does not import PyTorch, so that it starts at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vrtspike.cluster.end_hook import EndHook
from vrtspike.cluster.machines import Machines, train
from vrtspike.cluster.signals import EXIT_RESUMABLE
from vrtspike.cluster.slurm_job import requeue
from vrtspike.cluster.time_limit import TimeLimit, time_limit
from vrtspike.config.loading import check_training
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.monitoring.display import Messages
from vrtspike.runs.file_names import LAUNCHER_LOCK
from vrtspike.runs.folder import is_finished, lock_run, read_record, set_aside
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.published import publish
from vrtspike.runs.training_code import code_changes
from vrtspike.system.errors import first_few

if TYPE_CHECKING:
    from vrtspike.config.workflow_schema import WorkflowSettings

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
        runs: folder of all runs; None takes RUNS of the configuration.
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
    runs: Path | None = None
    gpus: int | Literal["auto"] | None = None
    max_gpus: int | None = None
    retrain: bool = False
    log: Path | None = None


@dataclass(frozen=True)
class _Run:
    """The run of a launch.

    Attributes:
        request: the training to launch.
        program: the training program.
        workflow: settings of the workflow.
        identity: identity of the run, with the settings of the preset.
        folder: folder of the run.
        messages: receiver of the launcher's messages and the training's log.
    """

    request: Launch
    program: Path
    workflow: WorkflowSettings
    identity: RunIdentity
    folder: Path
    messages: Messages

    @property
    def machines(self) -> Machines:
        """Machines and GPUs of the training."""
        gpus = self.workflow.GPUS if self.request.gpus is None else self.request.gpus
        return Machines(gpus, self.workflow.NODES, self.request.max_gpus)

    @property
    def end_hook(self) -> EndHook:
        """LOG.ON_END of the preset."""
        command = self.identity.settings.LOG.ON_END
        return EndHook(
            command, self.request.preset, self.folder, self.request.output, self.messages
        )


def launch(program: Path, request: Launch) -> int:
    """Train, or continue, and publish the result.

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
    run = _identify_run(program, request)
    code_message = _compare_code(run)
    _create_log_folder(request.log)
    # A batch job keeps running when the Snakemake that submitted it is killed. The next Snakemake
    # submits another job for the same run, which waits here before it takes a GPU. Until then the
    # log is that of the running job.
    with lock_run(run.folder, LAUNCHER_TIMEOUT_S, run.messages.show, LAUNCHER_LOCK):
        was_finished = is_finished(run.folder)
        if not was_finished:
            # An error of an earlier start must not look like one of this start.
            run.messages.empty_log()
        _announce(run, code_message)
        run.identity.write(run.folder)
        if was_finished:
            # Its log stays, because the training may have ended while this launcher waited.
            _publish(run, " (the run was finished before)")
            return 0
        limit = time_limit(os.environ)
        starts = _count_starts(run.folder)
        status = _train_to_end(run, limit)
    was_cut_short = status == EXIT_RESUMABLE and limit is not None and limit.reached
    # A job that made no step would make none after requeueing, either.
    if was_cut_short and has_advanced(run.folder, starts):
        _requeue(run.messages)
    return status


def _identify_run(program: Path, request: Launch) -> _Run:
    """Read the configuration, and find the folder of the run by its identity.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if data are missing.
    """
    workflow = load_workflow(request.configfile, request.config)
    settings = workflow.preset(request.preset)
    check_training(settings)
    identity = identify(request.preset, settings, request.dataset)
    runs = request.runs or Path(workflow.settings.RUNS)
    folder = runs / identity.name / identity.fingerprint
    return _Run(request, program, workflow.settings, identity, folder, Messages(request.log))


def _compare_code(run: _Run) -> str | None:
    """Compare the code with that of the run, which is set aside for retraining if it has changed.

    Returns:
        a message; None if there is nothing to report.
    """
    request = run.request
    changed = code_changes(run.folder, run.program, run.identity.settings.TASK)
    if changed is None:
        return None
    if changed and request.retrain:
        former = set_aside(run.folder)
        return f"the former run is now {former}: {first_few(changed)}"
    if changed:
        return (
            f"code has changed since this run began: {first_few(changed)}; to train it "
            f"again: snakemake --cores all train_{request.preset} --config RETRAIN={request.preset}"
        )
    if request.retrain:
        return "the run's code has not changed; remove its folder to train it again"
    return None


def _create_log_folder(log: Path | None) -> None:
    """Create the folder of the log, if there is a log."""
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)


def _announce(run: _Run, code_message: str | None) -> None:
    """Report the run's folder, and the message of :func:`_compare_code`."""
    run.messages.note(f"run folder: {run.folder}")
    if code_message is not None:
        run.messages.show(code_message)


def _train_to_end(run: _Run, limit: TimeLimit | None) -> int:
    """Train, publish a finished run, and run LOG.ON_END, also after an error.

    Returns:
        the exit status, as of :func:`launch`.
    """
    status = 1  # for LOG.ON_END, if this launcher fails
    try:
        status = _train_and_publish(run, limit)
    finally:
        run.end_hook.run(status)
    return status


def _train_and_publish(run: _Run, limit: TimeLimit | None) -> int:
    """Train, and publish the result of a finished run; return the exit status."""
    status = train(run.folder, run.machines, run.program, run.messages, limit)
    if status == 0:
        _publish(run)
    return status


def _publish(run: _Run, remark: str = "") -> None:
    """Publish the result, and note its folder with a remark."""
    publish(run.folder, run.request.output)
    run.messages.note(f"result: {run.request.output}{remark}")


def _count_starts(folder: Path) -> int:
    """Return how often a run has been started."""
    record = read_record(folder)
    if record is None:
        return 0
    return len(record["starts"])


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


def _requeue(messages: Messages) -> None:
    """Requeue this job, in which training continues."""
    is_queued_again = requeue(os.environ)
    if is_queued_again:
        messages.show("this job is queued again, where training continues")
