"""Start and end of the training processes of one machine.

A single process is started directly, several by ``torchrun``. ``python -m
vrtspike.launching.torchrun`` is ``torchrun``, but reports a crash by its exit status only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import psutil

from vrtspike.cluster.current_job import LIMIT_CHECK_INTERVAL_S, TimeLimit
from vrtspike.cluster.failures import NEAR_END
from vrtspike.launching.gpus import Devices
from vrtspike.launching.signals import LAUNCHER_DIED, STOP_SIGNALS, block_signals, signal_handlers
from vrtspike.system.cpus import available_cpus, number_in
from vrtspike.system.processes import stop_with_parent

RENDEZVOUS_FILE_VARIABLE = "VRTSPIKE_STORE"
"""Environment variable: rendezvous file of the processes of one machine."""
_LOOPBACK = "lo"
_SINGLE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
"""The environment variables of ``torchrun`` for a single process."""


class ProgramExit(NamedTuple):
    """End of a program.

    Attributes:
        code: exit status of the program.
        was_stopped: true if it was requested to stop.
    """

    code: int
    was_stopped: bool


def start_training(
    folder: Path,
    devices: Devices,
    program: Path,
    environment: dict[str, str],
    nodes: int = 1,
    endpoint: str = "",
    limit: TimeLimit | None = None,
) -> ProgramExit:
    """Run the training program, one process per GPU of this machine, to its end.

    Args:
        folder: folder of the run.
        devices: GPUs of this machine.
        program: path of ``scripts/train.py``.
        environment: further environment variables.
        nodes: number of machines.
        endpoint: host and port of one of several machines, where all processes meet.
        limit: time limit; None if there is no limit.
    """
    ranks = max(1, len(devices.names))
    variables = {**training_environment(devices, ranks), **environment}
    training = [str(program), "--run-dir", str(folder)]
    if ranks == nodes == 1:
        # torchrun would only delay the start by seconds.
        command = [sys.executable, "-u", *training]
        variables |= _SINGLE_PROCESS
        return run_program(command, _stop_process, variables, _init_child, limit, devices.locks)
    torchrun = [sys.executable, "-m", __name__]
    # After a signal that torchrun handles, it kills processes that need more than 30 seconds to
    # end. torchrun therefore handles only the signal that is sent when this process has died.
    torchrun += ["--signals-to-handle", LAUNCHER_DIED.name]
    torchrun += ["--nnodes", str(nodes), "--rdzv-backend", "c10d"]
    torchrun += ["--nproc-per-node", str(ranks)]
    # torchrun gets a folder for its logs, because it would not remove a folder that it creates
    # itself.
    with tempfile.TemporaryDirectory(prefix="vrtspike-torchrun-") as files:
        if nodes > 1:
            torchrun += ["--rdzv-id", endpoint, "--rdzv-endpoint", endpoint]
        else:
            # PyTorch's key-value stores listen on all interfaces of the machine.
            store = f"{files}/rendezvous"
            torchrun += ["--rdzv-endpoint", store, "--rdzv-conf", "store_type=file"]
            variables |= {
                RENDEZVOUS_FILE_VARIABLE: f"{files}/processes",
                # Otherwise torchrun starts a server for the processes anyway.
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "GLOO_SOCKET_IFNAME": _LOOPBACK,
                "NCCL_SOCKET_IFNAME": _LOOPBACK,
            }
        command = [*torchrun, "--log-dir", files, *training]
        return run_program(command, _stop_processes, variables, _init_child, limit, devices.locks)


def training_environment(devices: Devices, ranks: int) -> dict[str, str]:
    """Return the environment of the training processes."""
    # Snakemake sets the variable to all threads of the job, which the processes must share.
    cpus = available_cpus()
    available = min(number_in(os.environ, "OMP_NUM_THREADS") or cpus, cpus)
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": ",".join(devices.names),
        "OMP_NUM_THREADS": str(max(1, available // ranks)),
    }


def run_program(
    command: Sequence[str],
    stop: Callable[[psutil.Process], None],
    environment: dict[str, str],
    begin: Callable[[], None] = stop_with_parent,
    limit: TimeLimit | None = None,
    locks: Sequence[int] = (),
) -> ProgramExit:
    """Run a program to its end, and stop it at a signal to this process or at a time limit.

    Args:
        command: program and its arguments.
        stop: function that stops the program.
        environment: all environment variables of the program.
        begin: function called in the new process.
        limit: time limit; None if there is no limit.
        locks: open, locked files that the program inherits.
    """
    received: list[int] = []
    started: list[int] = []

    def request_stop(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        for pid in started:
            with contextlib.suppress(psutil.NoSuchProcess):  # torchrun has ended
                stop(psutil.Process(pid))

    with signal_handlers(STOP_SIGNALS, request_stop):
        # torchrun gets its own session; otherwise it would receive the terminal's signals twice.
        process = subprocess.Popen(
            command, env=environment, preexec_fn=begin, start_new_session=True, pass_fds=locks
        )
        started.append(process.pid)
        if received:  # a signal came while torchrun started
            request_stop(received[0], None)
        while limit is not None and not received and process.poll() is None:
            left = limit.seconds()
            if left == 0.0 and not received:
                print(f"{NEAR_END}: asking training to stop", flush=True)
                request_stop(signal.SIGALRM, None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(left, LIMIT_CHECK_INTERVAL_S))
        return ProgramExit(process.wait(), bool(received))


def _init_child() -> None:
    """Set up the signals of the new process."""
    # A batch system may signal all processes of a job. torchrun must ignore it, and the training
    # processes are not ready to handle it yet.
    block_signals(STOP_SIGNALS)
    stop_with_parent(LAUNCHER_DIED)


def _stop_process(process: psutil.Process) -> None:
    """Send SIGTERM to a training process."""
    process.send_signal(signal.SIGTERM)
    # In case the process was suspended (SIGSTOP).
    process.send_signal(signal.SIGCONT)


def _stop_processes(torchrun: psutil.Process) -> None:
    """Stop the training processes, or ``torchrun`` if it has not started them yet."""
    processes = torchrun.children()
    for process in processes:
        _stop_process(process)
    if not processes:
        torchrun.send_signal(LAUNCHER_DIED)


def main() -> None:
    """Run ``torchrun``; exit statuses above 128 give the signal that ended the first process."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun()
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        sys.exit(128 - failure.exitcode if failure.exitcode < 0 else 1)


if __name__ == "__main__":
    main()
