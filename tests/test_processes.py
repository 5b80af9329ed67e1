"""Work spread over processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from vrtspike.errors import DataError, RunError
from vrtspike.processes import for_each

THINGS = [f"thing {number}" for number in range(7)]


def work(thing: str) -> tuple[str, int]:
    if thing == "thing 3":
        raise DataError(f"{thing}: no good")
    return thing.upper(), os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_each_thing_is_worked_on_once_and_errors_are_given_back(processes):
    outcomes = dict(for_each(work, THINGS, processes))
    assert sorted(outcomes) == THINGS
    error = outcomes.pop("thing 3")
    assert isinstance(error, DataError)
    assert str(error) == "thing 3: no good"
    assert {thing: done for thing, (done, _) in outcomes.items()} == {
        thing: thing.upper() for thing in outcomes
    }
    pids = {pid for _, pid in outcomes.values()}
    assert len(pids) <= min(processes, len(THINGS))
    assert (os.getpid() in pids) == (processes == 1)
    assert not [child for child in psutil.Process().children() if child.pid in pids]


def test_a_single_thing_needs_no_process():
    ((thing, (_, pid)),) = for_each(work, THINGS[:1], 8)
    assert (thing, pid) == ("thing 0", os.getpid())
    assert list(for_each(work, [], 8)) == []


def meet(folder: str) -> str:
    """Wait until another process works at the same time."""
    Path(folder, str(os.getpid())).touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < 2:
        assert time.monotonic() < deadline, "worked alone"
        time.sleep(0.01)
    return folder


def test_things_are_worked_on_at_the_same_time(tmp_path):
    found = [outcome for _, outcome in for_each(meet, [str(tmp_path)] * 2, 2)]
    assert found == [str(tmp_path)] * 2


class OddError(Exception):
    """Cannot be sent to another process: it is made of two arguments and tells one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def fail(thing: str) -> None:
    raise OddError(thing, thing) if thing == "odd" else KeyError(thing)


def test_a_defect_keeps_the_place_where_it_happened():
    found = dict(for_each(fail, ["plain", "odd"], 2))
    assert isinstance(found["plain"], KeyError)
    assert "in fail" in "".join(found["plain"].__notes__)
    assert "OddError: odd" in str(found["odd"])
    assert "in fail" in str(found["odd"])


def die(thing: str) -> str:
    if thing == "thing 1":
        os.kill(os.getpid(), signal.SIGKILL)
    return thing


def test_a_killed_process_is_named_with_its_thing():
    before = set(psutil.Process().children())  # of other tests in this process
    with pytest.raises(RunError, match=r"thing 1: .*SIGKILL, as when memory is full"):
        list(for_each(die, THINGS, 2))
    assert not set(psutil.Process().children()) - before


def die_soon(thing: str) -> int:
    """Be killed when the result is on its way."""
    pid = os.getpid()
    subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {pid}"])
    return pid


def test_a_process_killed_between_two_things_is_named_with_the_next():
    outcomes = for_each(die_soon, list("abcdef"), 2)
    _, pid = next(outcomes)
    # Its next result may be on the way by then: what it is given after that it never gets.
    wait_for(lambda: not psutil.pid_exists(pid) or not is_alive(psutil.Process(pid)))
    with pytest.raises(RunError, match=r"[b-f]: the process .*SIGKILL, as when memory is full"):
        list(outcomes)


PROGRAM = """
import os, sys, time
from pathlib import Path
from vrtspike.cli import run
from vrtspike.files import atomic_path
from vrtspike.processes import for_each

def work(thing):
    with atomic_path(Path(sys.argv[1]) / thing) as temporary:
        temporary.write_text("half")
        Path(sys.argv[1], f"{os.getpid()}.pid").touch()
        time.sleep(600)

def main():
    for _ in for_each(work, ["a", "b"], int(sys.argv[2])):
        pass

run(main)
"""


@pytest.mark.parametrize(
    ("number", "processes"),
    [(signal.SIGTERM, 2), (signal.SIGINT, 2), (signal.SIGKILL, 2), (signal.SIGTERM, 1)],
)
def test_no_process_and_nothing_half_written_is_left(tmp_path, number, processes):
    """SIGINT comes to the parent alone here; on a terminal to all at once."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(processes)], stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == processes)
        workers = [psutil.Process(int(path.stem)) for path in tmp_path.glob("*.pid")]
        parent.send_signal(number)
        assert parent.wait(60) != 0
        # They have no parent any more that could wait for them.
        wait_for(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        parent.kill()
        parent.wait()
    assert [path for path in tmp_path.iterdir() if path.suffix != ".pid"] == []


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(happened) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


DEAF = """
import os, signal, sys, threading, time
from pathlib import Path
from vrtspike.cli import run
from vrtspike.processes import for_each

def work(thing):
    # As where a library's thread takes the signal of a parent that has died.
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    return os.getpid()

def main():
    for _, pid in for_each(work, ["a", "b"], 2):
        Path(sys.argv[1], f"{pid}.pid").touch()
        if len(list(Path(sys.argv[1]).iterdir())) == 2:
            time.sleep(600)

run(main)
"""


def test_processes_that_wait_end_with_their_parent_whoever_takes_the_signal(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", DEAF, str(tmp_path)])
    workers: list[psutil.Process] = []
    try:
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        workers = [psutil.Process(int(path.stem)) for path in tmp_path.glob("*.pid")]
        parent.kill()
        parent.wait()
        wait_for(lambda: not any(is_alive(worker) for worker in workers))
    finally:
        for process in (parent, *filter(is_alive, workers)):
            process.kill()
