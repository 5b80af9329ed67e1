"""Commands of a project whose processes can be found, whoever their parents are by now."""

from __future__ import annotations

import contextlib
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

PATIENCE_S = 240.0
"""How long anything may take; the machine may be slow, but nothing may hang."""

END_S = 10.0
"""By then nothing is left of a command: mostly at once, 6 s at most on two cores with ten busy
processes."""

_LOOK_S = 0.005
_SLICE_S = 0.01
"""Of any work that is struck in its midst, many of these must be left."""

ROLES = {
    "snakemake": ("-m", "snakemake"),
    "launcher": ("scripts/launch_training.py",),
    "torchrun": ("-m", "vrtspike.launching.agent"),
    "rank": ("-u", "scripts/train.py"),
    "server": ("-c", "from multiprocessing.forkserver import main"),
}
"""What the command line of a process holds; that of another program is its script."""


@dataclass(frozen=True)
class Command:
    """A command at work, in a session of its own, as a terminal has one."""

    process: subprocess.Popen[bytes]
    mark: str
    output: Path

    @property
    def text(self) -> str:
        """What it has said so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> list[psutil.Process]:
        """All its processes that live, its own included."""
        return [process for process in psutil.process_iter() if _is_marked(process, self.mark)]

    def find(self, role: str) -> list[psutil.Process]:
        """Its processes of a role: of :data:`ROLES`, ``worker``, or a script of the project."""
        if role == "worker":
            servers = {process.pid for process in self.find("server")}
            return [process for process in self.alive() if _parent(process) in servers]
        if role == "nested":
            return [process for process in self.alive() if "--report" in _words(process)[:-1]]
        words = ROLES.get(role, (f"scripts/{role}.py",))
        found = [process for process in self.alive() if _is_called(process, words)]
        # What a server or a shell starts has the command line of its parent at first.
        pids = {process.pid for process in found}
        return sorted(
            (process for process in found if _parent(process) not in pids),
            key=lambda process: process.pid,
        )

    def wait_for(self, happened: Callable[[], object]) -> None:
        """Wait for a condition while the command is at work."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.process.poll() is None, f"it has ended before:\n{self.text}"
            assert time.monotonic() < deadline, f"nothing happened:\n{self.text}"
            time.sleep(_LOOK_S)

    @contextlib.contextmanager
    def held(self, role: str, until: Callable[[], object] = lambda: True) -> Iterator[None]:
        """Let the processes of a role, and all below them, stand still while the body runs.

        A look at a process that runs says how it was, not how it is when it is struck. So they are
        stopped as soon as they are there, and run in slices until they are where they shall be.

        Args:
            role: as for :meth:`find`.
            until: where they shall be, asked while they stand still.
        """
        found: list[psutil.Process] = []
        self.wait_for(lambda: found.extend(self.find(role)) or found)
        stopped: list[psutil.Process] = []
        deadline = time.monotonic() + PATIENCE_S
        try:
            stopped = self._stop(found)
            while not until():
                assert time.monotonic() < deadline, f"{role} does not get there:\n{self.text}"
                _resume(stopped)
                time.sleep(_SLICE_S)
                stopped = self._stop(found)
            yield
        finally:
            _resume(stopped)

    def _stop(self, processes: list[psutil.Process]) -> list[psutil.Process]:
        """Stop processes and all below them; returns all of these."""
        stopped: list[psutil.Process] = []
        waiting = list(processes)
        while waiting:
            process = waiting.pop()
            try:
                process.suspend()
                while not _stands(process):
                    time.sleep(0)
                # One that stands still starts no others.
                waiting += process.children()
            except psutil.NoSuchProcess:
                assert process not in processes, f"it was over before it was held:\n{self.text}"
            else:
                stopped.append(process)
        return stopped

    def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            living = "\n".join(str(process) for process in self.alive())
            raise AssertionError(f"it hangs:\n{self.text}\n{living}") from None

    def orphans(self) -> list[list[str]]:
        """Command lines of its processes that still live :data:`END_S` after its end."""
        deadline = time.monotonic() + END_S
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [_words(process) for process in left]


@contextlib.contextmanager
def started(
    project: Project, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[Command]:
    """Start a program of Python in a project; whatever is left of it ends with the block."""
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
            preexec_fn=_heed_all,
        )
    command = Command(process, mark, output)
    try:
        yield command
    finally:
        for left in command.alive():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait()


def _heed_all() -> None:
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


def _stands(process: psutil.Process) -> bool:
    """Whether all threads of a process are stopped.

    Raises:
        psutil.NoSuchProcess: if it has ended.
    """
    if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        raise psutil.NoSuchProcess(process.pid)
    try:
        threads = [*Path(f"/proc/{process.pid}/task").iterdir()]
        lines = [(thread / "stat").read_text(errors="replace") for thread in threads]
    except OSError:  # one of them has just ended
        return False
    return {line.rpartition(")")[2].split()[0] for line in lines} == {"T"}


def _resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return process.cmdline()
    return []


def _parent(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.ppid()
    return 0


def _is_called(process: psutil.Process, words: tuple[str, ...]) -> bool:
    """Whether a process of Python was called with these words, one after the other."""
    given = _words(process)
    if not given or "python" not in Path(given[0]).name:
        return False
    return any(
        all(_is(word, said) for word, said in zip(words, given[place:], strict=False))
        for place in range(len(given) - len(words) + 1)
    )


def _is(word: str, said: str) -> bool:
    """A script may be named with the folders above it; a program in a word goes on."""
    return said.startswith(word) or said.endswith(f"/{word}")
