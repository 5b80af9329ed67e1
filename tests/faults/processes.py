"""Commands of a project whose processes can be found, whoever their parents are by now."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.workflow.project import Project

MARK = "VRTSPIKE_TEST_MARK"
"""Environment variable that all processes of a command inherit."""

PATIENCE_S = 800.0
"""Seconds that anything may take; the machine may be slow, but nothing may hang."""

END_S = 10.0
"""By then nothing is left of a command: mostly at once, 6 s at most on two cores with ten busy
processes."""

_LOOK_S = 0.005

ROLES = {
    "snakemake": r"-m snakemake ",
    "nested": r"snakemake .*--report .",
    "launcher": r"scripts/launch_training\.py ",
    "rank": r"-u \S*scripts/train\.py ",
    "server": r"-c from multiprocessing\.forkserver import main",
}
"""Script of a Python process, from its command line."""

CHECKPOINT = r"/step_\d+\.pt$"


def stop_at(folder: Path, count: int = 1, **event: str) -> dict[str, str]:
    """Environment in which the first process that an event happens to stops itself, once.

    Args:
        folder: where the event is asked for.
        count: which one of a process.
        event: ``begins``: the role of a program, which stands still before its first line;
            ``publishes``: a pattern of a file's path, to which it is about to be renamed.
    """
    if "begins" in event:
        event["begins"] = _called_as(event["begins"])
    request = folder / f"event-{secrets.token_hex(4)}.json"
    request.write_text(json.dumps({**event, "count": count}), encoding="utf-8")
    paths = [str(Path(__file__).parent / "event"), str(folder / "src")]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    return {"VRTSPIKE_TEST_EVENT": str(request), "PYTHONPATH": os.pathsep.join(paths)}


def _called_as(role: str) -> str:
    return ROLES.get(role, rf"scripts/{role}\.py ")


@dataclass(frozen=True)
class Command:
    """A command at work, in a session of its own, as a terminal has one."""

    process: subprocess.Popen[bytes]
    mark: str
    output: Path

    @property
    def text(self) -> str:
        """Its output so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> list[psutil.Process]:
        """All its processes that live, its own included."""
        return [process for process in psutil.process_iter() if _is_marked(process, self.mark)]

    def find(self, role: str) -> list[psutil.Process]:
        """Its processes of a role: of :data:`ROLES`, ``worker``, or a script of the project."""
        if role == "worker":
            servers = {process.pid for process in self.find("server")}
            return [process for process in self.alive() if _parent(process) in servers]
        words = re.compile(_called_as(role))
        processes = [process for process in self.alive() if words.search(_called(process))]
        # What a server or a shell starts has the command line of its parent at first.
        pids = {process.pid for process in processes}
        first = (process for process in processes if _parent(process) not in pids)
        return sorted(first, key=lambda process: process.pid)

    def wait_for(self, happened: Callable[[], object]) -> None:
        """Wait for a condition while the command is at work."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.process.poll() is None, f"it has ended before:\n{self.text}"
            assert time.monotonic() < deadline, f"nothing happened:\n{self.text}"
            time.sleep(_LOOK_S)

    @contextlib.contextmanager
    def held(self, role: str) -> Iterator[None]:
        """Let the processes of a role, and all below them, stand still while the body runs.

        It begins when a process has come to the event of :func:`stop_at`.
        """
        self.wait_for(lambda: any(is_stopped(process) for process in self.alive()))
        stopped = stop_all(self.find(role))
        try:
            yield
        finally:
            resume(stopped)

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            living = "\n".join(str(process) for process in self.alive())
            raise AssertionError(f"it hangs:\n{self.text}\n{living}") from None

    def succeed(self) -> str:
        """Wait for its end, which must be a success; returns its output."""
        assert self.wait() == 0, self.text
        return self.text

    def orphans(self) -> list[str]:
        """Command lines of its processes that still live :data:`END_S` after its end."""
        deadline = time.monotonic() + END_S
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [_called(process) for process in left]


@contextlib.contextmanager
def started(
    project: Project, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[Command]:
    """Start a program of Python in a project; whatever is left of it ends with the block.

    Args:
        environment: more of it, as of :func:`stop_at`.
    """
    mark = secrets.token_hex(8)
    output = project.folder / f"terminal-{mark}.txt"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            arguments,
            cwd=project.folder,
            env={**project.environment, MARK: mark, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_restore_all,
        )
    command = Command(process, mark, output)
    try:
        yield command
    finally:
        for left in command.alive():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait()


def _restore_all() -> None:
    """As at a terminal: a shell lets what it runs in the background ignore SIGINT, nohup SIGHUP."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        # psutil's `environ` waits for nothing, but parses more than is asked here.
        variables = Path(f"/proc/{process.pid}/environ").read_bytes()
        return f"{MARK}={mark}".encode() in variables and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.NoSuchProcess):
        return False


def is_stopped(process: psutil.Process) -> bool:
    """Return whether all threads of a process are stopped."""
    try:
        threads = [*Path(f"/proc/{process.pid}/task").iterdir()]
        lines = [(thread / "stat").read_text(errors="replace") for thread in threads]
    except OSError:  # one of them has just ended
        return False
    return {line.rpartition(")")[2].split()[0] for line in lines} == {"T"}


def wait_until_signalled(process: psutil.Process) -> None:
    """Wait until a process that stands still has been sent a signal, is awake, or has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while is_stopped(process) and not _pending(process):
        assert time.monotonic() < deadline, f"{process} got no signal"
        time.sleep(_LOOK_S)


def _pending(process: psutil.Process) -> int:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))
    return 0


def stop_all(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Stop processes and all below them; returns all of these."""
    stopped: list[psutil.Process] = []
    waiting = list(processes)
    while waiting:
        process = waiting.pop()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            while process.status() != psutil.STATUS_ZOMBIE and not is_stopped(process):
                time.sleep(0)
            # One that stands still starts no others.
            waiting += process.children()
            stopped.append(process)
    return stopped


def resume(processes: list[psutil.Process]) -> None:
    """Let those go on that live."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def _parent(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.ppid()
    return 0


def _called(process: psutil.Process) -> str:
    """The command line of a process; nothing of a shell's, which holds those of its programs."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        program, *words = process.cmdline() or [""]
        return " ".join([program, *words, ""]) if "python" in Path(program).name else program
    return ""
