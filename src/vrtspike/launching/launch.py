"""Start a training run, or continue it, and publish its result.

The launcher does not import PyTorch, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from vrtspike.cluster.current_job import TimeLimit, requeue, time_limit
from vrtspike.cluster.failures import QUEUED_AGAIN
from vrtspike.config.loading import require_trainable
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.launching.machines import DeviceRequest, train_on_machines
from vrtspike.launching.signals import EXIT_RESUMABLE
from vrtspike.monitoring.display import Messages
from vrtspike.runs.file_names import LAUNCHER_LOCK
from vrtspike.runs.folder import is_finished, lock_run, read_record, set_aside
from vrtspike.runs.identity import RunIdentity, identify
from vrtspike.runs.published import publish
from vrtspike.staleness.training_code import code_changes
from vrtspike.system.errors import first_few

LAUNCHER_TIMEOUT_S = 7 * 86400.0
"""Seconds that a launcher waits for another one; a batch system's time limit is shorter."""

_END_STATUS = {0: "finished", EXIT_RESUMABLE: "interrupted"}
"""Texts for LOG.ON_END by exit status."""


def launch(
    program: Path,
    *,
    preset: str,
    configfile: Sequence[str | Path],
    config: Mapping[str, Any],
    dataset: Path,
    output: Path,
    gpus: int | Literal["auto"] | None = None,
    max_gpus: int | None = None,
    retrain: bool = False,
    log: Path | None = None,
) -> int:
    """Train, or continue, publish the result, and run LOG.ON_END.

    Args:
        program: the training program.
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

    Returns:
        the exit status: 0 when the result is published, ``EXIT_RESUMABLE`` when the run was
        stopped and saved, ``EXIT_USER_ERROR`` when the trainer has explained what is wrong, 1 when
        it failed.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if devices or data are missing.
    """
    workflow = load_workflow_config(configfile, config)
    settings = workflow.settings_of(preset)
    require_trainable(settings)
    run = identify(preset, settings, dataset)
    folder = Path(workflow.settings.RUNS) / run.name / run.fingerprint
    machines = DeviceRequest(
        workflow.settings.GPUS if gpus is None else gpus, workflow.settings.NODES, max_gpus
    )
    messages = Messages(log)
    # Before the lock, a file in the folder, which would be set aside with it. Of two launchers one
    # sets it aside, as that takes the lock for itself and refuses a folder that is in use.
    code_message = _compare_code(run, folder, program, retrain)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
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
            publish(folder, output)
            messages.note(f"result: {output} (the run was finished before)")
            return 0
        limit = time_limit(os.environ)
        record = read_record(folder)
        starts = 0 if record is None else len(record["starts"])
        status = 1  # for LOG.ON_END, if training or publishing raises an error
        try:
            status = _train_and_publish(folder, machines, program, output, messages, limit)
        finally:
            run_end_hook(settings.LOG.ON_END, status, preset, folder, output, messages)
    if status == EXIT_RESUMABLE:
        _requeue_if_cut_short(folder, starts, messages, limit)
    return status


def _compare_code(run: RunIdentity, folder: Path, program: Path, retrain: bool) -> str | None:
    """Compare the code with that of the run, which is set aside for retraining if it has changed.

    Returns:
        a message; None if there is nothing to report.
    """
    changed = code_changes(folder, program, run.settings.TASK)
    if changed is None:
        return None
    if changed and retrain:
        former = set_aside(folder)
        return f"the former run is now {former}: {first_few(changed)}"
    if changed:
        return (
            f"code has changed since this run began: {first_few(changed)}; to train it "
            f"again: snakemake --cores all train_{run.name} --config RETRAIN={run.name}"
        )
    if retrain:
        return "the run's code has not changed; remove its folder to train it again"
    return None


def _train_and_publish(
    folder: Path,
    machines: DeviceRequest,
    program: Path,
    output: Path,
    messages: Messages,
    limit: TimeLimit | None,
) -> int:
    """Train a run, and publish it if it is finished; return the exit status of the training.

    Args:
        folder: folder of the run.
        machines: requested devices.
        program: the training program.
        output: folder of the published result.
        messages: receiver of the output.
        limit: time limit of the job; None without one.
    """
    status = train_on_machines(folder, machines, program, messages, limit)
    if status == 0:
        publish(folder, output)
        messages.note(f"result: {output}")
    return status


def _requeue_if_cut_short(
    folder: Path, starts: int, messages: Messages, limit: TimeLimit | None
) -> None:
    """Submit the job of a stopped run again, if its time limit was reached.

    Args:
        folder: folder of the run.
        starts: number of starts of the run before this job.
        messages: receiver of a message.
        limit: time limit of the job; None without one.
    """
    was_cut_short = limit is not None and limit.reached
    # A job that has not completed a single step would not do so after requeueing either.
    if was_cut_short and has_advanced(folder, starts) and requeue(os.environ):
        messages.show(f"{QUEUED_AGAIN}, where training continues")


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


def run_end_hook(
    command: str | None, status: int, preset: str, folder: Path, output: Path, messages: Messages
) -> None:
    """Run LOG.ON_END in a shell; its failure is only a warning.

    The environment of the command has ``VRTSPIKE_PRESET``, ``VRTSPIKE_STATUS`` (finished,
    interrupted or failed), ``VRTSPIKE_STEP``, ``VRTSPIKE_METRICS`` (JSON, of the last validation),
    ``VRTSPIKE_RUN`` (the run's folder) and ``VRTSPIKE_RESULT`` (the folder of the published
    result).

    Args:
        command: command for ``sh``; None if there is none.
        status: exit status of the training.
        preset: name of the preset.
        folder: folder of the run.
        output: folder of the published result; it exists only if the run is finished.
        messages: receiver of the output of the command.
    """
    if command is None:
        return
    record = read_record(folder) or {}
    variables = {
        "VRTSPIKE_PRESET": preset,
        "VRTSPIKE_STATUS": _END_STATUS.get(status, "failed"),
        "VRTSPIKE_STEP": str(record.get("step", 0)),
        "VRTSPIKE_METRICS": json.dumps(record.get("metrics", {})),
        "VRTSPIKE_RUN": str(folder.absolute()),
        "VRTSPIKE_RESULT": str(output.absolute()),
    }
    with contextlib.ExitStack() as stack:
        output_file = None
        if messages.log is not None:
            output_file = stack.enter_context(messages.log.open("a"))
        completed = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if completed.returncode:
        location = messages.log or "above"
        messages.show(
            f"warning: LOG.ON_END ended with {completed.returncode}; its output: {location}"
        )
