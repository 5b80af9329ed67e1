"""Trains with two processes: undisturbed, asked to stop now and then, killed at many moments.

A program of its own: it imports everything once and forks each process, so that a start takes a
tenth of a second. Started by test_distributed.py; prints what happened as JSON.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch._dynamo

from tests.helpers.concurrency import free_port
from tests.training.forecast import Disturbed, Forecaster
from tests.training.setup_run import forecast_settings, forecast_trainer
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.records import read_records
from vrtspike.launching.signals import EXIT_RESUMABLE, StopRequest
from vrtspike.system.processes import stop_with_parent
from vrtspike.training.distributed import join_process_group

RANKS = 2
PATIENCE_S = 0.3
"""Time for the survivors of a kill to notice it, before they are ended as torchrun would."""


OPTIONS: dict[str, Any] = {"samples": 11, "frozen_steps": {"inlet": 12}}
"""Of all runs: some stops and kills come before a part of the model learns, some after."""


def settings_of(train: dict[str, Any]) -> RunSettings:
    return forecast_settings(train, DATALOADER={"DROP_LAST": False})


Fate: TypeAlias = tuple[int, signal.Signals]
"""Micro-batches before a process gets a signal, and the signal."""


def train_as_one_of_many(folder: Path, train: dict[str, Any], objective: Disturbed) -> int:
    """Train as the environment's RANK says; returns the exit status."""
    with StopRequest() as stop, join_process_group("cpu") as ranks:
        trainer = forecast_trainer(
            folder,
            settings_of(train),
            ranks=ranks,
            timing=ranks.is_main,
            objective=objective,
            model=lambda: forecaster(ranks.rank),
            **OPTIONS,
        )
        outcome = trainer.run(stop)
        trainer.timing.close()
        # Every process must have learned the same weights.
        sums = ranks.gather(
            sum(float(p.detach().double().sum()) for p in trainer.learner.model.parameters())
        )
        assert len(set(sums)) == 1, sums
    return 0 if outcome == "finished" else EXIT_RESUMABLE


def forecaster(rank: int) -> Forecaster:
    """The model; other processes than the first begin with weights of their own, to be replaced."""
    model = Forecaster()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)
    return model


def start(folder: Path, train: dict[str, Any], fates: dict[int, Fate]) -> list[int]:
    """Fork the processes of a run; returns their ids."""
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            _be(rank, folder, train, Disturbed(*fates.get(rank, ())))
        pids.append(pid)
    return pids


def _be(rank: int, folder: Path, train: dict[str, Any], objective: Disturbed) -> None:
    stop_with_parent()
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank)},
        **{"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)},
    }
    status = 1
    try:
        status = train_as_one_of_many(folder, train, objective)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def last_step(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    result = read_records(path) if path.exists() else []
    return result[-1]["step"] if result else 0


def end(pids: list[int]) -> list[int]:
    """Wait for the end of all processes, for those that survive another not long."""
    left, deadline, result = list(pids), math.inf, []
    while left:
        for pid in list(left):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.remove(pid)
                result.append(os.waitstatus_to_exitcode(status))
                if result[-1] == -signal.SIGKILL:
                    deadline = min(deadline, time.monotonic() + PATIENCE_S)
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return result


def interrupted(
    folder: Path, train: dict[str, Any], ends: Sequence[signal.Signals], rng: random.Random
) -> list[dict]:
    """Have one process or both get a signal, start after start, and finish the run."""
    history: list[dict] = []
    for number in ends:
        both = number == signal.SIGKILL and rng.random() < 0.3
        victims = list(range(RANKS)) if both else [rng.randrange(RANKS)]
        fate = rng.randrange(1, 9), number
        statuses = end(start(folder, train, dict.fromkeys(victims, fate)))
        saved = (folder / "checkpoints" / f"step_{last_step(folder):08d}.pt").is_file()
        history.append({"statuses": statuses, "saved": saved})
    history.append({"statuses": end(start(folder, train, {}))})
    return history


def main() -> None:
    folder, train, kills = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(int(sys.argv[4]))
    with free_port() as port:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        whole = end(start(folder / "whole", train, {}))
        stops = (signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM)
        stopped = interrupted(folder / "stopped", train, stops, rng)
        killed = interrupted(folder / "killed", train, [signal.SIGKILL] * kills, rng)
    print(json.dumps({"whole": whole, "stopped": stopped, "killed": killed}))


if __name__ == "__main__":
    assert torch._dynamo
    main()
