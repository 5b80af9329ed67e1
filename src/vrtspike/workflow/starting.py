"""Before the first job of a run: weights are there, and no other Snakemake makes the same files.

Each Snakemake lists in a locked file what it is about to make. Another one with one of these files
in its plan, not made yet, waits and plans once more. Snakemake's own lock would refuse already
where two plans read the same data, and would have to be removed by hand after a crash.

Requests to stop that only Snakemake receives are forwarded to the programs of its jobs: Ctrl-C
reaches all processes of a terminal, but a signal to Snakemake alone (``kill``, a batch system that
asks the first process of a job) would let it wait for its jobs, be it for days.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Literal, TextIO

import psutil

from vrtspike.cluster.launch import require_machines
from vrtspike.errors import RunError, is_disk_full
from vrtspike.io.files import writes_to
from vrtspike.io.locks import lock_file, locked
from vrtspike.system.endings import (
    STARTER,
    end_in_order,
    end_with_starter,
    is_ignored,
    name_process,
)
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

_POLL_S = 0.5
_SUFFIX = ".plan"


def prepare_process(snakemake: SnakemakeInternals) -> None:
    """Before anything is planned: how this process ends, and what its jobs find around them."""
    # The Python that runs Snakemake, also where its environment is not activated.
    path = [str(Path(sys.executable).parent), *os.get_exec_path()]
    os.environ["PATH"] = os.pathsep.join(path)
    if snakemake.is_main:
        # Programs end with the Snakemake that runs them, and so does a Snakemake within a rule.
        end_with_starter()
        forward_stops(lambda: snakemake.runs_here)
    os.environ[STARTER] = name_process() or ""


def begin_run(
    snakemake: SnakemakeInternals, results: Path, gpus: int | Literal["auto"], nodes: int
) -> None:
    """Wait where another Snakemake makes the same files, and plan once more then.

    Args:
        snakemake: tells what is due.
        results: folder of all results.
        gpus: GPUS of the configuration.
        nodes: NODES of it.

    Raises:
        UserError: if a training finds no devices, or results cannot be written.
    """
    due = snakemake.due_jobs()
    if snakemake.runs_here and any(job.rule == "train" for job in due):
        require_machines(gpus, nodes)
    # Snakemake would only note a request to end, for its scheduler, which is not at work yet.
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    end_in_order()
    lock = OutputLock(results / "logs/snakemakes")
    try:
        waited = lock.acquire(
            [file for job in due for file in job.outputs], lambda text: print(text, file=sys.stderr)
        )
    except OSError as error:
        if not is_disk_full(error):
            raise RunError(
                f"{error.filename}: {error.strerror}; fix that or its permissions, or set RESULTS "
                "(config/config.yaml) to a folder that can be written, and run again"
            ) from error
        waited = False  # the job that cannot write tells it
    if waited:
        sys.stdout.flush()
        os.execv(sys.executable, sys.orig_argv)
    atexit.register(lock.release)
    for number, handler in previous.items():
        signal.signal(number, handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class OutputLock:
    """The right to make some files; it ends with this process, however that ends.

    Args:
        folder: for the lists, the same for all Snakemakes with these results.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: TextIO | None = None

    def acquire(self, files: Collection[str], say: Callable[[str], None]) -> bool:
        """Take the right as soon as nobody else is about to make one of the files.

        Args:
            files: to make.
            say: is told whom to wait for.

        Returns:
            Whether another one was waited for: the files may be there now, and nothing is locked.

        Raises:
            OSError: if the folder cannot be written; it names the folder, or a file in it.
        """
        mine, waited = frozenset(map(os.path.abspath, files)), False
        with writes_to(self._folder):
            while True:
                try:
                    with locked(self._folder / "lock"):
                        other = self._other(mine)
                        if other is None and not waited:
                            self._begin(mine)
                        if other is None:
                            return waited
                except RunError:
                    return waited  # a file system without locks
                if not waited:
                    say(other)
                    waited = True
                time.sleep(_POLL_S)

    def _other(self, mine: frozenset[str]) -> str | None:
        """One that is about to make some of these files, in words; None if there is none."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            # A Snakemake that ends meanwhile removes its own file.
            with contextlib.suppress(FileNotFoundError):
                if found := _conflict(path, mine):
                    return found
        return None

    def _begin(self, files: frozenset[str]) -> None:
        path = self._folder / f"{socket.gethostname()}-{os.getpid()}{_SUFFIX}"
        self._own = path.open("w", encoding="utf-8")
        lock_file(self._own.fileno(), path)
        who = f"process {os.getpid()} on {socket.gethostname()}"
        json.dump({"who": who, "files": sorted(files)}, self._own)
        self._own.flush()

    def release(self) -> None:
        """Give the right back."""
        if self._own is not None:
            with contextlib.suppress(FileNotFoundError):
                Path(self._own.name).unlink()
            with contextlib.suppress(
                OSError
            ):  # on a full disk what was not written is written here
                self._own.close()
            self._own = None


def _conflict(path: Path, mine: frozenset[str]) -> str | None:
    """The process that makes some of these files, in words; lists of ended ones are removed."""
    with path.open("r+", encoding="utf-8") as stream:
        if lock_file(stream.fileno(), path):
            path.unlink()
            return None
        plan = json.load(stream)
        begun = os.fstat(stream.fileno()).st_mtime_ns
    common = sorted(file for file in mine.intersection(plan["files"]) if _due(file, begun))
    if not common:
        return None
    more = f" and {len(common) - 1} more" if len(common) > 1 else ""
    return (
        f"waiting for another snakemake ({plan['who']}), which makes "
        f"{os.path.relpath(common[0])}{more} of the files that are due here, too; "
        "Ctrl-C ends only this one"
    )


def _due(file: str, begun: int) -> bool:
    """Whether a file is still to be made by one that began at this time."""
    try:
        return Path(file).stat().st_mtime_ns < begun
    except OSError:
        return True


GRACE_S = 3.0
"""After SIGINT: what the terminal has asked to stop is asked a second time only after this."""

_FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT})


def forward_stops(runs_here: Callable[[], bool]) -> None:
    """From now on ask the programs of the jobs to stop when this Snakemake is asked to.

    Closing the terminal asks to stop, too. Call it in the main thread.

    Args:
        runs_here: whether jobs run on this machine. Those of a cluster are cancelled by its
            executor, whose own programs, such as ``scancel``, must be left to their work.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    # Python writes the numbers of all signals that it handles, whoever has set the handler: that is
    # Snakemake, later.
    signal.set_wakeup_fd(writing.detach())
    if not is_ignored(signal.SIGHUP):
        signal.signal(signal.SIGHUP, _stop_by_terminal)
    threading.Thread(
        target=_listen, args=(reading, runs_here), daemon=True, name="forward_stops"
    ).start()


def _stop_by_terminal(number: int, frame: FrameType | None) -> None:
    """Without its terminal Snakemake would die at once, and leave its jobs to themselves."""
    os.kill(os.getpid(), signal.SIGTERM)


def _listen(requests: socket.socket, runs_here: Callable[[], bool]) -> None:
    while numbers := requests.recv(64):
        if _FORWARDED.isdisjoint(numbers) or not runs_here():
            continue
        if signal.SIGTERM not in numbers:
            time.sleep(GRACE_S)
        terminate_programs(psutil.Process())


def terminate_programs(snakemake: psutil.Process) -> None:
    """Send SIGTERM to the programs that the shells of this process run.

    Args:
        snakemake: their starter.
    """
    for shell in snakemake.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            # A shell that has one thing to do becomes it.
            for program in shell.children() or [shell]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    program.terminate()
