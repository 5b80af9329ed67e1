"""Trains with two processes undisturbed, then again with killing them at many moments.

A program of its own: it imports everything once and forks each process, so that a start takes a
tenth of a second. Started by test_fault_injection.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch._dynamo

import training.setup_run
from training.forecast_run import train_as_one_of_many
from vrtspike.training.signals import stop_with_parent

RANKS = 2
PATIENCE_S = 20.0
AGENT_PATIENCE_S = 1.5
"""Time for the survivors of a kill to notice it, before they are ended as torchrun would."""


def start(folder: Path, train: dict[str, Any]) -> list[int]:
    """Fork the processes of a run; returns their ids."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            _be(rank, port, folder, train)
        pids.append(pid)
    return pids


def _be(rank: int, port: int, folder: Path, train: dict[str, Any]) -> None:
    stop_with_parent()
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank)},
        **{"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
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
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def wait_for_the_moment(folder: Path, number: int, rng: random.Random) -> str:
    """Wait until it is time to kill; every second time that is while a checkpoint is written."""
    saving, begin = number % 2 == 1, steps_done(folder)
    steps = rng.randrange(1, 6)
    deadline = time.monotonic() + PATIENCE_S
    if number % 5 == 0:
        time.sleep(rng.uniform(0.0, 0.3))
        return "start"
    while steps_done(folder) < begin + steps and time.monotonic() < deadline:
        time.sleep(0.001)
    if not saving:
        time.sleep(rng.uniform(0.0, 0.03))
        return "step"
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


def main() -> None:
    folder, train = Path(sys.argv[1]), json.loads(sys.argv[2])
    kills, rng = int(sys.argv[3]), random.Random(int(sys.argv[4]))
    whole, killed = folder / "whole", folder / "killed"
    ends = [end(start(whole, train), 10 * PATIENCE_S)]
    history = []
    for number in range(kills):
        pids = start(killed, train)
        moment = wait_for_the_moment(killed, number, rng)
        one = pids[0 if moment == "save" else rng.randrange(RANKS)]
        for pid in pids if rng.random() < 0.3 else [one]:
            os.kill(pid, signal.SIGKILL)
        statuses = end(pids, AGENT_PATIENCE_S)
        history.append({"moment": moment, "statuses": statuses, "torn": is_saving(killed)})
    ends.append(end(start(killed, train), 10 * PATIENCE_S))
    print(json.dumps({"history": history, "ends": ends}))


if __name__ == "__main__":
    assert torch._dynamo
    assert training.setup_run
    main()
