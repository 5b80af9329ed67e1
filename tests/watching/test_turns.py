"""Two Snakemakes with one folder of results."""

from __future__ import annotations

import fcntl
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.kernel_locks import is_waited_for
from vrtspike.watching.turns import Turns

HOLDER = """
import sys
from pathlib import Path
from vrtspike.watching.turns import Turns
turns = Turns(Path(sys.argv[1]))
assert not turns.take(sys.argv[2:], print)
print("ready", flush=True)
for line in sys.stdin:
    turns.tell(line.split())
    print("told", flush=True)
turns.end()
"""


def holder(folder: Path, *files: str) -> subprocess.Popen[str]:
    """A process that is about to make some files."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def taken(folder: Path, *files: str) -> tuple[threading.Thread, list[str], list[bool]]:
    """Take a turn in a thread; what it says, and what comes of it."""
    said: list[str] = []
    waited: list[bool] = []
    turns = Turns(folder)
    thread = threading.Thread(target=lambda: waited.append(turns.take(files, said.append)))
    thread.start()
    return thread, said, waited


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_others_are_not_waited_for(tmp_path):
    other = holder(tmp_path, "a", "b")
    said: list[str] = []
    turns = Turns(tmp_path)
    assert turns.take(["c"], said.append) is False
    assert said == []
    turns.end()
    other.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_who_makes_the_same_file_is_named_and_waited_for(tmp_path):
    other = holder(tmp_path, "a", "b", "c")
    thread, said, waited = taken(tmp_path, "b", "c", "d")
    wait_until(lambda: said)
    assert f"process {other.pid} on " in said[0]
    assert "which makes b and 1 more of the files that are due here, too" in said[0]
    assert not waited
    other.communicate()
    thread.join(60)
    assert (waited, len(said)) == ([True], 1)
    # It plans anew before it begins.
    assert not [*tmp_path.glob("*.plan")]


def test_what_is_made_is_not_waited_for_any_more(tmp_path):
    other = holder(tmp_path, "a", "b")
    thread, said, waited = taken(tmp_path, "a")
    wait_until(lambda: said)
    assert other.stdin is not None
    other.stdin.write("b\n")
    other.stdin.flush()
    thread.join(60)
    assert waited == [True]
    assert other.poll() is None
    other.communicate()


def test_what_is_told_later_is_known_wherever_snakemake_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = holder(tmp_path, "a", "b")
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("b\n")
    other.stdin.flush()
    assert other.stdout.readline() == "told\n"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    thread, said, waited = taken(tmp_path, "../b")
    wait_until(lambda: said or waited)
    other.communicate()
    thread.join(60)
    assert waited == [True]


def test_who_was_killed_is_forgotten(tmp_path):
    other = holder(tmp_path, "a")
    other.kill()
    other.communicate()
    assert len([*tmp_path.glob("*.plan")]) == 1
    turns = Turns(tmp_path)
    assert turns.take(["a"], lambda text: None) is False
    assert len([*tmp_path.glob("*.plan")]) == 1
    turns.end()


def test_a_plan_that_goes_while_it_is_looked_for_is_in_nobodys_way(tmp_path):
    """As a link that leads nowhere: it is listed, and cannot be opened."""
    (tmp_path / "gone.plan").symlink_to(tmp_path / "nowhere")
    turns = Turns(tmp_path)
    assert turns.take(["a"], lambda text: None) is False
    turns.end()


def test_one_file_has_one_name_wherever_snakemake_was_started(tmp_path, monkeypatch):
    other = holder(tmp_path, str(tmp_path / "results/a"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    thread, said, waited = taken(tmp_path, "../results/a")
    wait_until(lambda: said)
    other.communicate()
    thread.join(60)
    assert waited == [True]


def test_two_do_not_begin_at_the_same_moment(tmp_path):
    with (tmp_path / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        thread, said, waited = taken(tmp_path, "a")
        wait_until(lambda: is_waited_for(tmp_path / "lock"))
        assert (said, waited) == ([], [])
        assert not [*tmp_path.glob("*.plan")]
    thread.join(60)
    assert waited == [False]


def test_a_plan_that_is_being_written_may_hold_anything(tmp_path):
    with (tmp_path / "host-7.plan").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        thread, said, waited = taken(tmp_path, "a", "b")
        wait_until(lambda: said)
        assert "(host-7), which makes a and 1 more" in said[0]
        assert not waited
    thread.join(60)
    assert waited == [True]


def test_a_shorter_plan_replaces_a_longer_one(tmp_path):
    turns = Turns(tmp_path)
    turns.take([f"file {number}" for number in range(100)], print)
    turns.tell(["b"])
    (path,) = tmp_path.glob("*.plan")
    assert json.loads(path.read_text())["files"] == [str(Path("b").absolute())]
    turns.end()


def test_a_write_that_fails_names_the_folder(tmp_path):
    """The system says of a file that is open only what went wrong."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as told:
            Turns(tmp_path).take(["a"], print)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told.value.filename == str(tmp_path)
