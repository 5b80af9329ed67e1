"""The training processes of one machine: started, asked to stop, waited for.

One process is started as it is; several, of one machine or more, by ``torchrun``.
``python -m vrtspike.cluster.torchrun`` is ``torchrun`` itself, but tells the end of a training
process by a status, not by a page.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from vrtspike.cluster.gpus import Devices
from vrtspike.cluster.scheduler import LIMIT_CHECK_INTERVAL_S, NEAR_END, TimeLimit
from vrtspike.cluster.signals import LAUNCHER_DIED, STOP_SIGNALS, block, handled_signals
from vrtspike.system.cpus import available_cpus
from vrtspike.system.endings import describe_status
from vrtspike.system.processes import stop_with_parent

_SIGNAL_OFFSET = 128
"""Added to the number of a signal where a shell, or :func:`main`, tells of an end by it."""
_SINGLE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
"""What ``torchrun`` tells the only process of a run, whatever else the environment says."""


@dataclass(frozen=True)
class Rendezvous:
    """Where the machines of a run find each other.

    Attributes:
        nodes: how many there are.
        endpoint: host and port of one of them, of this run's own.
    """

    nodes: int
    endpoint: str


@dataclass(frozen=True)
class ProgramExit:
    """How a program ended.

    Attributes:
        code: its exit status.
        was_stopped: whether it was asked to stop.
        program: what a person calls it.
    """

    code: int
    was_stopped: bool
    program: str

    def __str__(self) -> str:
        """What a person is told of the exit status."""
        # A status above 128 is that of a training process, which :func:`main` has passed on.
        who = "one of its processes" if self.code > _SIGNAL_OFFSET else self.program
        return f"{who} {describe_status(self.code)}"


def run_training(
    folder: Path,
    devices: Devices,
    program: Path,
    environment: dict[str, str],
    rendezvous: Rendezvous | None = None,
    limit: TimeLimit | None = None,
) -> ProgramExit:
    """Run the training program, one process per GPU of this machine, to its end.

    Args:
        folder: of the run.
        devices: of this machine.
        program: the training program.
        environment: further variables for it.
        rendezvous: where the run's other machines are; None for no others.
        limit: when to stop; None for never.
    """
    ranks = max(1, len(devices.names))
    variables = {**training_environment(devices, ranks), **environment}
    training = [str(program), "--run-dir", str(folder)]
    if ranks == 1 and rendezvous is None:
        # The process of torchrun would only wait for it, and takes seconds to start.
        command, alone = [sys.executable, "-u", *training], {**variables, **_SINGLE_PROCESS}
        return run(command, "its process", _stop_process, alone, _init_child, limit, devices.locks)
    where = ["--standalone"]
    if rendezvous is not None:
        where = [
            *("--nnodes", str(rendezvous.nodes), "--rdzv-backend", "c10d"),
            *("--rdzv-id", rendezvous.endpoint, "--rdzv-endpoint", rendezvous.endpoint),
        ]
    torchrun = [
        # A signal that torchrun handles it takes for a crash: it kills what has not ended after 30
        # seconds. So it is left with the one that comes when this process has died.
        *(sys.executable, "-m", __name__),
        *("--signals-to-handle", LAUNCHER_DIED.name),
        *(*where, "--nproc-per-node", str(ranks)),
    ]
    # torchrun would make a folder for its logs by itself, and leave it behind.
    with tempfile.TemporaryDirectory(prefix="vrtspike-torchrun-") as logs:
        command = [*torchrun, "--log-dir", logs, *training]
        # A killed launcher leaves torchrun, which ends after the processes that still save.
        return run(
            command, "torchrun", _stop_processes, variables, _init_child, limit, devices.locks
        )


def training_environment(devices: Devices, ranks: int) -> dict[str, str]:
    """The environment of the training processes."""
    # Snakemake sets the variable to all threads of the job; every process would start as many.
    cpus = available_cpus()
    available = min(int(os.environ.get("OMP_NUM_THREADS") or cpus), cpus)
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": ",".join(devices.names),
        "OMP_NUM_THREADS": str(max(1, available // ranks)),
    }


def run(
    command: Sequence[str],
    name: str,
    stop: Callable[[psutil.Process], None],
    environment: dict[str, str],
    begin: Callable[[], None] = stop_with_parent,
    limit: TimeLimit | None = None,
    locks: Sequence[int] = (),
) -> ProgramExit:
    """Run a program to its end; signals to this process, and a time limit, ask it to stop.

    Args:
        command: the program.
        name: what a person calls it.
        stop: how it is asked.
        environment: all its variables.
        begin: called in the new process.
        limit: when to ask it to stop by itself; None for never.
        locks: open files whose locks it shall hold as well.
    """
    # In a session of its own: what a terminal sends to all, it would get a second time from here.
    process = subprocess.Popen(
        command, env=environment, preexec_fn=begin, start_new_session=True, pass_fds=locks
    )
    received: list[int] = []

    def request_stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        try:
            stop(psutil.Process(process.pid))
        except psutil.NoSuchProcess:
            # It has just ended by itself.
            return

    stops = [number for number in handled_signals() if number in STOP_SIGNALS]
    previous = {number: signal.signal(number, request_stop) for number in stops}
    try:
        while limit is not None and not received:
            # Someone may move the limit meanwhile, to either side.
            left = limit.seconds()
            if left == 0.0 and not received:
                print(f"{NEAR_END}: asking training to stop", flush=True)
                request_stop(signal.SIGALRM, None)
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(left, LIMIT_CHECK_INTERVAL_S))
                break
        return ProgramExit(process.wait(), bool(received), name)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _init_child() -> None:
    # A batch system may signal all processes of a job; torchrun shall not act upon it, and the
    # training processes not before they are ready to.
    block(STOP_SIGNALS)
    stop_with_parent(LAUNCHER_DIED)


def _stop_process(process: psutil.Process) -> None:
    """Send SIGTERM to a training process."""
    process.send_signal(signal.SIGTERM)
    # One that somebody has stopped meanwhile (SIGSTOP) would not hear of it.
    process.send_signal(signal.SIGCONT)


def _stop_processes(torchrun: psutil.Process) -> None:
    """Ask the training processes, or end ``torchrun`` before it has started them."""
    processes = torchrun.children()
    for process in processes:
        _stop_process(process)
    if not processes:
        torchrun.send_signal(LAUNCHER_DIED)


def main() -> None:
    """``torchrun``; a status above 128 is that of the first process that was ended by a signal."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun()
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        # As a shell tells it, so that the launcher can.
        sys.exit(_SIGNAL_OFFSET - failure.exitcode if failure.exitcode < 0 else 1)


if __name__ == "__main__":
    main()
