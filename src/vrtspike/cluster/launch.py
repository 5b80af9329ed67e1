"""Start a training run: settings, folder, devices, processes, the published result, LOG.ON_END.

The launcher does not import PyTorch, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vrtspike.cluster.gpus import Devices, take_gpus, usable_gpus
from vrtspike.cluster.signals import EXIT_RESUMABLE, STATUS_FILE, read_status, status_file
from vrtspike.cluster.slurm_job import rendezvous_endpoint, requeue, srun_command
from vrtspike.cluster.time_limit import TimeLimit, time_limit
from vrtspike.cluster.torchrun import run, run_training
from vrtspike.config.loading import check_training
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.monitoring.display import LOG_FILE, Messages
from vrtspike.runs.code import code_changes
from vrtspike.runs.folder import is_finished, lock_run, read_record, set_aside
from vrtspike.runs.identity import identify
from vrtspike.runs.names import LAUNCHER_LOCK
from vrtspike.runs.published import publish
from vrtspike.system.cli import positive_int
from vrtspike.system.endings import describe_status
from vrtspike.system.errors import first_few
from vrtspike.system.processes import stop_with_parent

if TYPE_CHECKING:
    import psutil

    from vrtspike.config.workflow_schema import WorkflowSettings

LAUNCHER_TIMEOUT_S = 7 * 86400.0
"""Seconds that a launcher waits for another one; a batch system's time limit is shorter."""

_FORWARDED = signal.SIGUSR1
"""Signal that srun forwards to its tasks on all nodes; at SIGTERM it kills them."""

_STATUS = {0: "finished", EXIT_RESUMABLE: "interrupted"}


def gpus_option(text: str) -> int | Literal["auto"]:
    """Parse ``auto`` or a number of GPUs from a command line.

    >>> gpus_option("auto"), gpus_option("0")
    ('auto', 0)
    >>> gpus_option("-1")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: found -1, expected 0 or more
    """
    return "auto" if text == "auto" else positive_int(text, minimum=0)


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
        log: file for the complete log, emptied once no other launcher holds the run; None logs to
            standard output.
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
    workflow = load_workflow(request.configfile, request.config)
    settings = workflow.preset(request.preset)
    check_training(settings)
    run_identity = identify(request.preset, settings, request.dataset)
    runs = request.runs or Path(workflow.settings.RUNS)
    folder = runs / run_identity.name / run_identity.fingerprint
    code_message = _compare_code(request, folder, program, settings.TASK)
    messages = Messages(request.log)
    if request.log is not None:
        request.log.parent.mkdir(parents=True, exist_ok=True)
    # A batch job keeps running when the Snakemake that submitted it is killed. The next Snakemake
    # submits another job for the same run, which waits here before it takes a GPU. Until then the
    # log is that of the running job.
    with lock_run(folder, LAUNCHER_TIMEOUT_S, messages.show, LAUNCHER_LOCK):
        messages.empty_log()
        messages.note(f"run folder: {folder}")
        if code_message is not None:
            messages.show(code_message)
        run_identity.write(folder)
        if is_finished(folder):
            publish(folder, request.output)
            messages.note(f"result: {request.output} (the run was finished before)")
            return 0
        limit = time_limit(os.environ)
        starts = _count_starts(folder)
        status = _train_and_publish(
            program, request, folder, workflow.settings, settings.LOG.ON_END, limit, messages
        )
    was_cut_short = status == EXIT_RESUMABLE and limit is not None and limit.reached
    # A job that made no step would make none after requeueing, either.
    if was_cut_short and has_advanced(folder, starts):
        is_queued_again = requeue(os.environ)
        if is_queued_again:
            messages.show("this job is queued again, where training continues")
    return status


def _compare_code(request: Launch, folder: Path, program: Path, problem: str) -> str | None:
    """Compare the code with that of the run, which is set aside for retraining if it has changed.

    Returns:
        a message; None if there is nothing to report.
    """
    changed = code_changes(folder, program, problem)
    if changed is None:
        return None
    if changed and request.retrain:
        former = set_aside(folder)
        return f"the former run is now {former}: {first_few(changed)}"
    if changed:
        return (
            f"code has changed since this run began: {first_few(changed)}; to train it "
            f"again: snakemake train_{request.preset} --config RETRAIN={request.preset}"
        )
    if request.retrain:
        return "the run's code has not changed; remove its folder to train it again"
    return None


def _train_and_publish(
    program: Path,
    request: Launch,
    folder: Path,
    workflow: WorkflowSettings,
    end_command: str | None,
    limit: TimeLimit | None,
    messages: Messages,
) -> int:
    """Train, publish the result of a finished run, and run LOG.ON_END, also after an error.

    Returns:
        the exit status, as of :func:`launch`.
    """
    hook_status = 1  # status of a launcher that fails before the training ends
    try:
        status = train(
            folder,
            workflow.GPUS if request.gpus is None else request.gpus,
            program,
            messages,
            nodes=workflow.NODES,
            max_gpus=request.max_gpus,
            limit=limit,
        )
        if status == 0:
            publish(folder, request.output)
            messages.note(f"result: {request.output}")
        hook_status = status
    finally:
        if end_command is not None:
            run_end_hook(end_command, request.preset, folder, request.output, hook_status, messages)
    return status


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


def require_machines(gpus: int | Literal["auto"], nodes: int) -> None:
    """Require that training can reach its devices from here.

    Args:
        gpus: GPUs of each machine.
        nodes: number of machines of the run.

    Raises:
        ConfigError: if there are several nodes, and this is no Slurm job of that size.
        RunError: if this machine has fewer GPUs.
    """
    if nodes > 1:
        srun_command(nodes, gpus)
    elif gpus != "auto":
        usable_gpus(gpus)


def train(
    folder: Path,
    gpus: int | Literal["auto"],
    program: Path,
    messages: Messages,
    *,
    nodes: int = 1,
    max_gpus: int | None = None,
    limit: TimeLimit | None = None,
) -> int:
    """Run the training program in as many processes as there are GPUs, and return its status.

    Args:
        folder: folder of the run.
        gpus: GPUs of each machine.
        program: the training program.
        messages: receiver of the launcher's messages and the training's log.
        nodes: number of machines of the run; more than one needs a Slurm job of that size.
        max_gpus: upper limit for ``auto``; None for all that are free.
        limit: the batch job's time limit; None for none.

    Raises:
        ConfigError: if this is no Slurm job of that size.
        RunError: if devices are missing.
    """
    with contextlib.ExitStack() as stack:
        devices = Devices()
        if nodes == 1:
            # GPUs are taken before anything in the run's folder changes, because this may take
            # hours.
            record = read_record(folder) or {}
            taken = take_gpus(
                gpus,
                max_count=max_gpus,
                batches=record.get("micro_batches"),
                show=messages.show,
            )
            devices = stack.enter_context(taken)
        path = stack.enter_context(status_file(folder))
        environment = {STATUS_FILE: str(path.absolute())}
        if messages.log is not None:
            environment[LOG_FILE] = str(messages.log.absolute())
        if nodes == 1:
            program_exit = run_training(folder, devices, program, environment, limit=limit)
        else:
            starter = program.with_name("train_node.py")
            command = [*srun_command(nodes, gpus), sys.executable, str(starter)]
            command += ["--run-dir", str(folder)]
            command += ["--program", str(program)]
            command += ["--gpus", str(gpus)]
            command += ["--nodes", str(nodes)]
            command += ["--endpoint", rendezvous_endpoint()]
            variables = {**os.environ, **environment}
            stop_with_launcher = partial(stop_with_parent, _FORWARDED)
            program_exit = run(command, _forward_stop, variables, stop_with_launcher, limit)
        status = read_status(path)
    if isinstance(status, int):
        return status
    if program_exit.was_stopped and status is None:
        messages.show("stopped before training had begun; the same command begins again")
        return EXIT_RESUMABLE
    failure = "training failed"
    if program_exit.was_stopped:
        failure += " while it was stopping"
    messages.show(
        f"{failure}: a process {describe_status(program_exit.code)}. What was saved "
        f"stays in {folder}; the same command continues from there"
    )
    return 1


def _forward_stop(srun: psutil.Process) -> None:
    """Ask the training processes on all nodes to save and stop."""
    srun.send_signal(_FORWARDED)


def train_on_node(
    folder: Path, gpus: int | Literal["auto"], program: Path, nodes: int, endpoint: str
) -> int:
    """Run the training processes of one of several nodes, and return their exit status.

    Args:
        folder: folder of the run.
        gpus: GPUs of this machine.
        program: the training program.
        nodes: number of machines.
        endpoint: host and port of one of them, where all processes meet.

    Raises:
        RunError: if devices are missing.
    """
    with take_gpus(gpus) as devices:
        return run_training(folder, devices, program, {}, nodes, endpoint).code


def run_end_hook(
    command: str, preset: str, folder: Path, output: Path, status: int, messages: Messages
) -> None:
    """Run LOG.ON_END in a shell; its failure is only a warning.

    The environment of the command has ``VRTSPIKE_PRESET``, ``VRTSPIKE_STATUS`` (finished,
    interrupted or failed), ``VRTSPIKE_STEP``, ``VRTSPIKE_METRICS`` (JSON, of the last validation),
    ``VRTSPIKE_RUN`` (the run's folder) and ``VRTSPIKE_RESULT`` (the folder of the published
    result).

    Args:
        command: command for ``sh``.
        preset: name of the preset.
        folder: folder of the run.
        output: folder of the published result; it exists only if the run is finished.
        status: exit status of the training.
        messages: receiver of the output of the command.
    """
    record = read_record(folder) or {}
    variables = {
        "VRTSPIKE_PRESET": preset,
        "VRTSPIKE_STATUS": _STATUS.get(status, "failed"),
        "VRTSPIKE_STEP": str(record.get("step", 0)),
        "VRTSPIKE_METRICS": json.dumps(record.get("metrics", {})),
        "VRTSPIKE_RUN": str(folder.absolute()),
        "VRTSPIKE_RESULT": str(output.absolute()),
    }
    with contextlib.ExitStack() as stack:
        output_file = None
        if messages.log is not None:
            output_file = stack.enter_context(messages.log.open("a"))
        done = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        place = messages.log or "above"
        messages.show(f"warning: LOG.ON_END ended with {done.returncode}; its output: {place}")
