"""Work spread over processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.helpers.concurrency import wait_until
from vrtspike.system.errors import DataError, RunError
from vrtspike.system.processes import map_unordered

THINGS = [f"thing {number}" for number in range(7)]


def work(thing: str) -> tuple[str, int]:
    if thing == "thing 3":
        raise DataError(f"{thing}: no good")
    return thing.upper(), os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_each_item_is_processed_once_and_errors_are_returned(processes):
    outcomes = dict(map_unordered(work, THINGS, processes))
    assert sorted(outcomes) == THINGS
    error = outcomes.pop("thing 3")
    assert isinstance(error, DataError)
    assert str(error) == "thing 3: no good"
    assert {thing: done for thing, (done, _) in outcomes.items()} == {
        thing: thing.upper() for thing in outcomes
    }
    pids = {pid for _, pid in outcomes.values()}
    assert len(pids) <= min(processes, len(THINGS))
    assert os.getpid() not in pids
    assert not [child for child in psutil.Process().children() if child.pid in pids]


def test_no_items_need_no_process():
    assert list(map_unordered(work, [], 8)) == []


class OddError(Exception):
    """Cannot be sent to another process: it is made of two arguments and tells one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def fail(thing: str) -> None:
    raise OddError(thing, thing) if thing == "odd" else KeyError(thing)


def test_a_defect_keeps_its_traceback():
    result = dict(map_unordered(fail, ["plain", "odd"], 2))
    assert isinstance(result["plain"], KeyError)
    assert "in fail" in str(result["plain"].__cause__)
    assert "OddError: odd" in str(result["odd"])
    assert "in fail" in str(result["odd"])


def die(thing: str) -> str:
    if thing == "thing 1":
        os.kill(os.getpid(), signal.SIGKILL)
    return thing


def test_a_killed_process_is_reported():
    before = set(psutil.Process().children())  # of other tests in this process
    with pytest.raises(RunError, match=r"a process was killed, .*\d left to do"):
        list(map_unordered(die, THINGS, 2))
    assert not set(psutil.Process().children()) - before


PROGRAM = """
import os, sys, time
from pathlib import Path
from vrtspike.system.program import run_main
from vrtspike.io.files import atomic_path
from vrtspike.system.processes import map_unordered

def work(thing):
    with atomic_path(Path(sys.argv[1]) / thing) as temporary:
        temporary.write_text("half")
        Path(sys.argv[1], f"{os.getpid()}.pid").touch()
        # "b" ends when the other process works: one that is quick would do both.
        while thing == "a" or len([*Path(sys.argv[1]).glob("*.pid")]) < 2:
            time.sleep(0.01)

def main():
    for _ in map_unordered(work, ["b", "a"], int(sys.argv[2])):
        time.sleep(600)  # the first process has nothing to do any more

run_main(main)
"""


@pytest.mark.parametrize(
    ("number", "processes"),
    [(signal.SIGTERM, 2), (signal.SIGINT, 2), (signal.SIGKILL, 2), (signal.SIGTERM, 1)],
)
def test_no_process_or_partial_file_is_left(tmp_path, number, processes):
    """SIGINT comes to the parent alone here; on a terminal to all at once."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(processes)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == processes)
        wait_until(lambda: (tmp_path / "b").exists() == (processes == 2))
        workers = [psutil.Process(int(path.stem)) for path in tmp_path.glob("*.pid")]
        parent.send_signal(number)
        assert parent.wait(60) != 0
        # They have no parent any more that could wait for them.
        wait_until(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        parent.kill()
        parent.wait()
    done = ["b"] * (processes - 1)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".pid"] == done


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
