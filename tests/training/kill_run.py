"""Trains with two processes: undisturbed, asked to stop now and then, killed at many moments.

A program of its own: it imports everything once and forks each process, so that a start takes a
tenth of a second. Started by test_distributed.py; prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch._dynamo

import tests.training.setup_run
from tests.ports import free_port
from tests.training.forecast_run import train_as_one_of_many
from vrtspike.processes import stop_with_parent

RANKS = 2
PATIENCE_S = 20.0
AGENT_PATIENCE_S = 1.5
"""Time for the survivors of a kill to notice it, before they are ended as torchrun would."""


def start(folder: Path, train: dict[str, Any]) -> list[int]:
    """Fork the processes of a run; returns their ids."""
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            _be(rank, folder, train)
        pids.append(pid)
    return pids


def _be(rank: int, folder: Path, train: dict[str, Any]) -> None:
    stop_with_parent()
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank)},
        **{"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)},
    }
    status = 1
    try:
        status = train_as_one_of_many(folder, train)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def is_saving(folder: Path) -> bool:
    return any((folder / "checkpoints").glob(".*.tmp.pt"))


def steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b'"kind": "train"') if path.is_file() else 0


def last_step(folder: Path) -> int:
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["step"]


def wait_for_steps(folder: Path, steps: int) -> None:
    begin, deadline = steps_done(folder), time.monotonic() + PATIENCE_S
    while steps_done(folder) < begin + steps and time.monotonic() < deadline:
        time.sleep(0.001)


def wait_for_the_moment(folder: Path, number: int, rng: random.Random) -> str:
    """Wait until it is time to kill; every second time that is while a checkpoint is written."""
    if number % 5 == 0:
        time.sleep(rng.uniform(0.0, 0.3))
        return "start"
    wait_for_steps(folder, rng.randrange(1, 6))
    if number % 2 == 0:
        time.sleep(rng.uniform(0.0, 0.03))
        return "step"
    deadline = time.monotonic() + PATIENCE_S
    while not is_saving(folder) and time.monotonic() < deadline:
        time.sleep(0.0002)
    return "save"


def end(pids: list[int], patience_s: float) -> list[int]:
    """Wait for the end of all processes, at most so long; returns their statuses."""
    left, deadline, found = list(pids), time.monotonic() + patience_s, []
    while left:
        for pid in list(left):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.remove(pid)
                found.append(os.waitstatus_to_exitcode(status))
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return found


def train_undisturbed(folder: Path, train: dict[str, Any]) -> list[int]:
    return end(start(folder, train), 10 * PATIENCE_S)


def train_with_stops(folder: Path, train: dict[str, Any], rng: random.Random) -> list[dict]:
    """Ask one process to stop, three times, and finish the run."""
    history = []
    for name in ("SIGTERM", "SIGUSR1", "SIGTERM"):
        pids = start(folder, train)
        wait_for_steps(folder, rng.randrange(3, 9))
        asked = time.monotonic()
        os.kill(pids[rng.randrange(RANKS)], getattr(signal, name))
        statuses = end(pids, PATIENCE_S)
        seconds, last = time.monotonic() - asked, last_step(folder)
        history.append({"statuses": statuses, "seconds": seconds, "step": last})
        history[-1]["saved"] = (folder / "checkpoints" / f"step_{last:08d}.pt").is_file()
    history.append({"statuses": train_undisturbed(folder, train)})
    return history


def train_with_kills(
    folder: Path, train: dict[str, Any], kills: int, rng: random.Random
) -> list[dict]:
    """Kill one process or both, again and again, and finish the run."""
    history = []
    for number in range(kills):
        pids = start(folder, train)
        moment = wait_for_the_moment(folder, number, rng)
        one = pids[0 if moment == "save" else rng.randrange(RANKS)]
        for pid in pids if rng.random() < 0.3 else [one]:
            os.kill(pid, signal.SIGKILL)
        statuses = end(pids, AGENT_PATIENCE_S)
        history.append({"moment": moment, "statuses": statuses, "torn": is_saving(folder)})
    history.append({"statuses": train_undisturbed(folder, train)})
    return history


def main() -> None:
    folder, train, kills = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(int(sys.argv[4]))
    with free_port() as port:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        whole = train_undisturbed(folder / "whole", train)
        stopped = train_with_stops(folder / "stopped", train, rng)
        killed = train_with_kills(folder / "killed", train, kills, rng)
    print(json.dumps({"whole": whole, "stopped": stopped, "killed": killed}))


if __name__ == "__main__":
    assert torch._dynamo
    assert tests.training.setup_run
    main()
