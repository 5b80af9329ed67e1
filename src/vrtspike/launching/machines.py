"""Training processes on one or several machines: their devices, their start, their exit status.

``python -m vrtspike.launching.machines`` starts the processes of one of several nodes; the launcher
calls it on each.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from vrtspike.cluster.current_job import TimeLimit, rendezvous_endpoint, srun_command
from vrtspike.launching.gpus import Devices, acquire_gpus, usable_gpus
from vrtspike.launching.signals import (
    EXIT_RESUMABLE,
    STATUS_FILE_VARIABLE,
    read_status,
    status_file,
)
from vrtspike.launching.torchrun import ProgramExit, run_program, start_training
from vrtspike.monitoring.display import LOG_FILE_VARIABLE, Messages
from vrtspike.runs.folder import read_record
from vrtspike.system.options import bounded_int
from vrtspike.system.processes import stop_with_parent
from vrtspike.system.program import run_main
from vrtspike.system.termination import describe_exit_status

_FORWARDED = signal.SIGUSR1
"""Signal that srun forwards to its tasks on all nodes; at SIGTERM it kills them."""


@dataclass(frozen=True)
class DeviceRequest:
    """Machines and GPUs that a training requests.

    Attributes:
        gpus: number of GPUs of each machine; ``auto`` for all that are free, 0 for the CPU.
        nodes: number of machines; more than one needs a Slurm job of that size.
        max_gpus: upper limit for ``auto`` on one machine; None for all that are free.
    """

    gpus: int | Literal["auto"]
    nodes: int = 1
    max_gpus: int | None = None


def gpus_option(text: str) -> int | Literal["auto"]:
    """Parse ``auto`` or a number of GPUs from a command line.

    >>> gpus_option("auto"), gpus_option("0")
    ('auto', 0)
    >>> gpus_option("-1")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: found -1, expected 0 or more
    """
    return "auto" if text == "auto" else bounded_int(text, min_value=0)


def require_devices(machines: DeviceRequest) -> None:
    """Require that training can reach its devices from here.

    Raises:
        ConfigError: if there are several nodes, and this is not a Slurm job of that size.
        RunError: if this machine has fewer GPUs.
    """
    if machines.nodes > 1:
        srun_command(machines.nodes, machines.gpus)
    elif machines.gpus != "auto":
        usable_gpus(machines.gpus)


def train_on_machines(
    folder: Path,
    machines: DeviceRequest,
    program: Path,
    messages: Messages,
    limit: TimeLimit | None = None,
) -> int:
    """Run the training program in as many processes as there are GPUs, to its end.

    Args:
        folder: folder of the run.
        machines: machines and GPUs of the training.
        program: the training program.
        messages: receiver of the launcher's messages and the training's log.
        limit: the batch job's time limit; None if there is no limit.

    Returns:
        the exit status of the training; 1 if a process crashed.

    Raises:
        ConfigError: if this is not a Slurm job of that size.
        RunError: if devices are missing.
    """
    taken: AbstractContextManager[Devices] = nullcontext(Devices())
    if machines.nodes == 1:  # several machines lock theirs in train_on_node
        batches = (read_record(folder) or {}).get("micro_batches")
        taken = acquire_gpus(
            machines.gpus, max_count=machines.max_gpus, batches=batches, show=messages.show
        )
    # GPUs are taken before anything in the run's folder changes, because this may take hours.
    with taken as devices, status_file(folder) as path:
        environment = {STATUS_FILE_VARIABLE: str(path.absolute())}
        if messages.log is not None:
            environment[LOG_FILE_VARIABLE] = str(messages.log.absolute())
        if machines.nodes == 1:
            program_exit = start_training(folder, devices, program, environment, limit=limit)
        else:
            program_exit = _train_on_nodes(folder, machines, program, environment, limit)
        status = read_status(path)
    if isinstance(status, int):
        return status
    if program_exit.was_stopped and status is None:
        messages.show("stopped before training had begun; the same command begins again")
        return EXIT_RESUMABLE
    failure = (
        "training failed while it was stopping" if program_exit.was_stopped else "training failed"
    )
    messages.show(
        f"{failure}: a process {describe_exit_status(program_exit.code)}. What was saved stays in "
        f"{folder}; the same command continues from there"
    )
    return 1


def _train_on_nodes(
    folder: Path,
    machines: DeviceRequest,
    program: Path,
    environment: dict[str, str],
    limit: TimeLimit | None,
) -> ProgramExit:
    """Start :func:`main` on each node of this Slurm job, and wait for the end of all.

    Raises:
        ConfigError: if this is not a Slurm job of that size.
    """
    command = [*srun_command(machines.nodes, machines.gpus), sys.executable, "-m", __name__]
    command += ["--run-dir", str(folder)]
    command += ["--program", str(program)]
    command += ["--gpus", str(machines.gpus)]
    command += ["--nodes", str(machines.nodes)]
    command += ["--endpoint", rendezvous_endpoint()]
    return run_program(
        command,
        lambda srun: srun.send_signal(_FORWARDED),
        {**os.environ, **environment},
        partial(stop_with_parent, _FORWARDED),
        limit,
    )


def train_on_node(folder: Path, machines: DeviceRequest, program: Path, endpoint: str) -> int:
    """Run the training processes of one of several nodes, and return their exit status.

    Args:
        folder: folder of the run.
        machines: machines and GPUs of the training.
        program: the training program.
        endpoint: host and port of one of the nodes, where all processes meet.

    Raises:
        RunError: if devices are missing.
    """
    with acquire_gpus(machines.gpus) as devices:
        return start_training(folder, devices, program, {}, machines.nodes, endpoint).code


def main() -> int:
    """Parse the arguments, and train on this node.

    SIGTERM, SIGUSR1 and SIGINT are forwarded: the processes save their state and end.
    """
    parser = argparse.ArgumentParser(description="Start the training processes of one node.")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run")
    parser.add_argument("--program", type=Path, required=True, help="the training program")
    parser.add_argument("--gpus", type=gpus_option, default="auto", help="of this node, or auto")
    parser.add_argument("--nodes", type=int, required=True, help="how many nodes train")
    parser.add_argument("--endpoint", required=True, metavar="HOST:PORT", help="where they meet")
    arguments = parser.parse_args()
    machines = DeviceRequest(arguments.gpus, arguments.nodes)
    return train_on_node(arguments.run_dir, machines, arguments.program, arguments.endpoint)


if __name__ == "__main__":
    run_main(main)
