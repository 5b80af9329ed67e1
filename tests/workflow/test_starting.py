"""Two Snakemakes with one folder of results; tests/faults has real ones."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.concurrency import is_waited_for
from vrtspike.workflow.starting import reserve_files

OWN = f"{socket.gethostname()}-{os.getpid()}.plan"
"""The list of this process, which stays until it ends."""

HOLDER = """
import sys
from pathlib import Path
from vrtspike.workflow.starting import reserve_files
assert not reserve_files(Path(sys.argv[1]), sys.argv[2:], print)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path) -> Callable[..., subprocess.Popen[str]]:
    def start(*files: str) -> subprocess.Popen[str]:
        """A process that is about to make some files."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path), *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    return start


class Second:
    """Another one, in a thread; what it says, and whether it waited."""

    def __init__(self, folder: Path, *files: str) -> None:
        self.said: list[str] = []
        self.waited: list[bool] = []
        self.waits = threading.Event()

        def show(text: str) -> None:
            self.said.append(text)
            self.waits.set()

        def acquire() -> None:
            self.waited.append(reserve_files(folder, files, show))

        self.thread = threading.Thread(target=acquire)
        self.thread.start()

    def end(self) -> list[bool]:
        self.thread.join(60)
        return self.waited


def test_a_snakemake_that_makes_the_same_file_is_named_and_waited_for(
    holder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    other = holder("a", "b", "c")
    # One file has one name wherever Snakemake was started.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    unconcerned = Second(tmp_path, "a", "b")
    assert (unconcerned.end(), unconcerned.said) == ([False], [])
    second = Second(tmp_path, "../b", "../c", "../d")
    assert second.waits.wait(60)
    assert f"process {other.pid} of " in second.said[0]
    assert "which makes ../b and 1 more of the files that are due here, too" in second.said[0]
    assert not second.waited
    other.communicate()
    # It has the right to nothing: it plans once more before it begins.
    assert (second.end(), len(second.said)) == ([True], 1)
    assert [path.name for path in tmp_path.glob("*.plan")] == [OWN]  # of the unconcerned


def test_only_files_that_are_not_made_yet_are_waited_for(holder, tmp_path):
    made = tmp_path / "made"
    made.touch()
    os.utime(made, (1e9, 1e9))
    other = holder(str(made), str(tmp_path / "b"))
    second = Second(tmp_path, str(made))
    assert second.waits.wait(60)
    os.utime(made)
    assert second.end() == [True]
    assert other.poll() is None
    other.communicate()


def test_lists_of_killed_snakemakes_are_removed(holder, tmp_path):
    other = holder("a")
    other.kill()
    other.communicate()
    # A link that leads nowhere is listed, and cannot be opened.
    (tmp_path / "gone.plan").symlink_to(tmp_path / "nowhere")
    assert len([*tmp_path.glob("*.plan")]) == 2
    assert Second(tmp_path, "a").end() == [False]
    assert {path.name for path in tmp_path.glob("*.plan")} == {"gone.plan", OWN}


def test_files_are_reserved_by_one_process_at_a_time(tmp_path):
    with (tmp_path / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        second = Second(tmp_path, "a")
        while not is_waited_for(tmp_path / "lock"):
            assert second.thread.is_alive()
        assert not [*tmp_path.glob("*.plan")]
    assert second.end() == [False]
