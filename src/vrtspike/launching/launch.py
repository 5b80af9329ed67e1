"""Start a training run: settings, folder, devices, ``torchrun``, and the published result.

Nothing here needs PyTorch: the launcher is there at once and leaves the work to the processes it
starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from vrtspike.config.loading import check_files
from vrtspike.config.packages import check_packages
from vrtspike.config.workflow import load_workflow
from vrtspike.launching.gpus import Devices, require_gpus, take_gpus
from vrtspike.launching.job_end import job_end
from vrtspike.launching.messages import Messages
from vrtspike.launching.on_end import told_on_end
from vrtspike.launching.signals import EXIT_INTERRUPTED
from vrtspike.launching.slurm import meeting_point, step_on_every_node, time_limit
from vrtspike.launching.status import STATUS_FILE, read_status, status_file
from vrtspike.launching.torchrun import Rendezvous, run, run_torchrun
from vrtspike.monitoring.nvml import installed_gpus
from vrtspike.processes import stop_with_parent
from vrtspike.runs.code import changes_since, describe_code
from vrtspike.runs.folder import is_finished, set_aside, take_turn
from vrtspike.runs.identity import identify
from vrtspike.runs.publish import publish
from vrtspike.runs.record import read_record

NODE_PROGRAM = "train_node.py"
"""Starts the processes of one of several nodes; stands beside the training program."""

_HANDED_ON = signal.SIGUSR1
"""What srun hands on to its programs on all nodes; at SIGTERM it would kill them."""


@dataclass(frozen=True)
class Request:
    """What to train and where.

    Attributes:
        preset: name of the preset.
        configfiles: workflow configuration files, later ones win.
        config: values laid over them.
        dataset: the dataset manifest.
        output: folder of the published result.
        runs: folder of all runs; None takes RUNS of the configuration.
        gpus: number of GPUs; None takes GPUS of the configuration.
        most_gpus: that ``auto`` takes; None for all that are free.
        anew: whether a run that other code has computed is set aside and begun again.
        program: the training program.
        log: a file for the full text, emptied first; None shows it on standard output.
    """

    preset: str
    configfiles: tuple[str, ...]
    config: dict[str, Any]
    dataset: Path
    output: Path
    program: Path
    runs: Path | None = None
    gpus: int | Literal["auto"] | None = None
    most_gpus: int | None = None
    anew: bool = False
    log: Path | None = None


def gpus_option(text: str) -> int | Literal["auto"]:
    """``auto`` or a number of GPUs, from a command line."""
    return "auto" if text == "auto" else int(text)


def launch(request: Request) -> int:
    """Train, or continue, and publish the result.

    Returns:
        the exit status: 0 when the result is published, ``EXIT_INTERRUPTED`` when the run was
        stopped and saved, ``EXIT_USER_ERROR`` when the trainer has explained what is wrong, 1 when
        it failed.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if the devices or the data are not there.
    """
    messages = Messages(request.log)
    messages.begin()
    plan = load_workflow(request.configfiles, request.config)
    settings = plan.preset(request.preset)
    check_files(settings)
    check_packages(settings)
    run_identity = identify(request.preset, settings, request.dataset)
    runs = request.runs or Path(plan.settings.RUNS)
    folder = runs / run_identity.name / run_identity.fingerprint
    messages.note(f"run folder: {folder}")
    _heed_code(folder, request, settings.TASK, messages)
    with take_turn(folder, messages.tell):
        run_identity.write(folder)
        if is_finished(folder):
            publish(folder, request.output)
            messages.note(f"result: {request.output} (the run was finished before)")
            return 0
        gpus = plan.settings.GPUS if request.gpus is None else request.gpus
        command = settings.LOG.ON_END
        with told_on_end(command, request.preset, folder, request.output, messages) as ending:
            status = train(
                folder,
                gpus,
                request.program,
                nodes=plan.settings.NODES,
                most_gpus=request.most_gpus,
                messages=messages,
            )
            if status == 0:
                publish(folder, request.output)
                messages.note(f"result: {request.output}")
            ending.status = status
    return status


def _heed_code(folder: Path, request: Request, task: str, messages: Messages) -> None:
    """Say if other code has computed the run so far, and begin it again if that is asked for."""
    changed = changes_since(folder, request.program, task)
    if changed == [] and request.anew:
        messages.tell("the run is of today's code; remove its folder to train it again")
    if not changed:
        return
    if request.anew:
        aside = set_aside(folder)
        messages.tell(f"the run of other code stands in {aside} now: {describe_code(changed)}")
    else:
        messages.tell(
            f"code has changed since this run began: {describe_code(changed)}; to train it again: "
            f"snakemake --forcerun train_{request.preset}"
        )


def require_machines(gpus: int | Literal["auto"], nodes: int) -> None:
    """Make sure that training can find its devices from here.

    Args:
        gpus: of each machine.
        nodes: machines of the run.

    Raises:
        ConfigError: if ``nodes`` are several and this is no Slurm job of that size.
        RunError: if this machine has fewer GPUs.
    """
    if nodes > 1:
        step_on_every_node(nodes, gpus)
    elif gpus != 0:
        require_gpus(gpus, installed_gpus())


def train(
    folder: Path,
    gpus: int | Literal["auto"],
    program: Path,
    *,
    nodes: int = 1,
    most_gpus: int | None = None,
    messages: Messages = Messages(),  # noqa: B008 - it never changes
) -> int:
    """Run the training program in as many processes as there are GPUs; returns its status.

    Args:
        folder: of the run.
        gpus: of each machine.
        program: the training program.
        nodes: machines of the run; more than one needs a Slurm job of that size.
        most_gpus: that ``auto`` takes of a machine; None for all that are free.
        messages: where the launcher's messages, and the full text of training, go.

    Raises:
        ConfigError: if there is no such job.
        RunError: if the devices are not there.
    """
    limit = time_limit(os.environ) or job_end(os.environ)
    with contextlib.ExitStack() as stack:
        devices = Devices()
        if nodes == 1:
            # It may wait for hours: the run's folder stays as it is meanwhile.
            batches = (read_record(folder) or {}).get("micro_batches")
            taken = take_gpus(gpus, most=most_gpus, dividing=batches, tell=messages.tell)
            devices = stack.enter_context(taken)
        path = stack.enter_context(status_file(folder))
        environment = {STATUS_FILE: str(path.absolute()), **messages.environment}
        if nodes == 1:
            ending = run_torchrun(folder, devices, program, environment, limit=limit)
        else:
            starter = program.with_name(NODE_PROGRAM)
            command = [
                *(*step_on_every_node(nodes, gpus), sys.executable, str(starter)),
                *("--run-dir", str(folder), "--program", str(program), "--gpus", str(gpus)),
                *("--nodes", str(nodes), "--endpoint", meeting_point()),
            ]
            variables = {**os.environ, **environment}
            ending = run(command, _ask_step, variables, begin=_begin_step, limit=limit)
        status = read_status(path)
    if isinstance(status, int):
        return status
    if ending.was_stopped and status is None:
        messages.tell("stopped before training had begun; the same command begins again")
        return EXIT_INTERRUPTED
    when = " while it was stopping" if ending.was_stopped else ""
    messages.tell(
        f"training failed{when}: {ending}. What was saved stays in {folder}; the same command "
        "continues from there"
    )
    return 1


def train_on_node(
    folder: Path, gpus: int | Literal["auto"], program: Path, rendezvous: Rendezvous
) -> int:
    """Run the share of one of several nodes; returns 0 where the launcher knows how it ended.

    Args:
        folder: of the run.
        gpus: of this machine.
        program: the training program.
        rendezvous: where the other machines are.

    Raises:
        RunError: if the devices are not there.
    """
    with take_gpus(gpus) as devices:
        return run_torchrun(folder, devices, program, {}, rendezvous).code


def _begin_step() -> None:
    stop_with_parent(_HANDED_ON)


def _ask_step(srun: psutil.Process) -> None:
    srun.send_signal(_HANDED_ON)
