"""Two processes: against one, stopped, killed several times."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from tests.training.kill_run import OPTIONS, settings_of
from tests.training.setup_run import forecast_trainer, records, run
from vrtspike.launching.signals import EXIT_RESUMABLE
from vrtspike.system.errors import ConfigError
from vrtspike.training.checkpoints import list_checkpoints, read_checkpoint
from vrtspike.training.distributed import DistributedContext, Replica, join_process_group

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
KILLS = 5

RUN = {
    "GRADIENT_ACCUMULATION_STEPS": 1,
    "MAX_STEPS": 45,
    "SAVE_EVERY_STEPS": 3,
    "EMA": 0.9,
}


class Runs(NamedTuple):
    """Folders of runs with equal settings, and what happened to them."""

    whole: Path
    stopped: Path
    killed: Path
    history: dict[str, Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    folder = tmp_path_factory.mktemp("ranks")
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_run.py"), str(folder), json.dumps(RUN), str(KILLS), "0"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    history = json.loads(done.stdout.splitlines()[-1])
    assert history["whole"] == [0, 0], done.stderr
    return Runs(folder / "whole", folder / "stopped", folder / "killed", history)


def newest(folder: Path) -> dict[str, Any]:
    return read_checkpoint(list_checkpoints(folder / "checkpoints")[0][1])


def assert_same_result(one: Path, other: Path) -> None:
    """Bit-identical weights, and records without gaps or repeats."""
    assert records(one) == records(other)
    states = newest(one), newest(other)
    for part in ("model", "average"):
        for name, value in states[0][part].items():
            assert torch.equal(value, states[1][part][name]), name


def assert_close_result(one: Path, other: Path) -> None:
    states = newest(one), newest(other)
    for name, value in states[0]["average"].items():
        torch.testing.assert_close(value, states[1]["average"][name], rtol=5e-3, atol=5e-4)
    assert [r["step"] for r in records(one)] == [r["step"] for r in records(other)]


def train_alone(folder: Path, train: dict[str, Any]) -> None:
    run(forecast_trainer(folder, settings_of(train), **OPTIONS))


def test_two_processes_compute_what_one_computes_with_accumulation(runs, tmp_path):
    train_alone(tmp_path, {**RUN, "GRADIENT_ACCUMULATION_STEPS": 2})
    assert_close_result(tmp_path, runs.whole)
    one, two = records(tmp_path), records(runs.whole)
    first = [(a["loss"], b["loss"]) for a, b in zip(one, two, strict=True) if a["kind"] == "train"]
    assert [a for a, _ in first[:5]] == pytest.approx([b for _, b in first[:5]], rel=1e-4)
    # The last batch of an epoch holds one sample, the others two.
    epochs = [[r["samples"] for r in rs if r["kind"] == "epoch"] for rs in (one, two)]
    assert epochs == [[11] * 15] * 2
    last = [next(r["skill"] for r in reversed(rs) if "skill" in r) for rs in (one, two)]
    assert last[0] == pytest.approx(last[1], abs=1e-3)


def test_gradient_exchange_is_timed_apart_from_backward(runs):
    (path,) = (runs.whole / "logs").glob("timing_*.jsonl")
    ms = json.loads(path.read_text().splitlines()[-1])["ms"]
    assert {"step/backward", "step/sync"} <= ms.keys()
    # Both end before the optimiser's part begins, which is timed too.
    assert "step/optimizer" in ms


def test_a_signal_to_one_process_stops_all_at_the_same_step(runs):
    *stops, last = runs.history["stopped"]
    for stop in stops:
        assert stop["statuses"] == [EXIT_RESUMABLE] * 2
        assert stop["saved"]
    assert last["statuses"] == [0, 0]
    assert_same_result(runs.stopped, runs.whole)


@pytest.mark.slow
def test_kills_do_not_change_the_result(runs):
    *kills, last = runs.history["killed"]
    assert len(kills) == KILLS
    assert all(-signal.SIGKILL in kill["statuses"] for kill in kills)
    assert last["statuses"] == [0, 0]
    assert_same_result(runs.killed, runs.whole)


def test_continues_on_another_number_of_processes(runs, tmp_path):
    shutil.copytree(runs.whole, tmp_path, dirs_exist_ok=True)
    for _, path in list_checkpoints(tmp_path / "checkpoints")[:-1]:
        path.unlink()
    assert newest(tmp_path)["step"] < RUN["MAX_STEPS"]
    train_alone(tmp_path, RUN)
    assert_close_result(tmp_path, runs.whole)


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_renewed_replica_leaves_nothing_behind(group):
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    alone = DistributedContext(0, 0, 2, 2, torch.device("cpu"))
    replica = Replica(model, alone)
    remembered = weakref.ref(replica.module)
    replica.module(torch.ones(1, 2)).sum().backward()
    assert model.bias.grad is None
    model.weight.grad = None
    model.bias.requires_grad_(True)
    replica.renew()
    assert remembered() is None
    with replica.accumulate(sync=True):
        replica.module(torch.ones(1, 2)).sum().backward()
    assert (model.weight.grad.tolist(), model.bias.grad.tolist()) == ([[1.0, 1.0]], [1.0])


@pytest.mark.parametrize("processes", [1, 2])
def test_a_sum_leaves_the_values_of_this_process(group, processes):
    values = torch.tensor([3.0, 4.0])
    total = DistributedContext(0, 0, processes, processes, torch.device("cpu")).sum(values)
    assert total.tolist() == [3.0, 4.0]
    total += 1
    assert values.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("device", ["cuda:0", "gpu", "", torch.device("cuda")])
def test_another_device_is_refused(device):
    """It would be the CPU in silence."""
    with (
        pytest.raises(ConfigError, match=r"found .*, expected cpu, cuda or None"),
        join_process_group(device),
    ):
        pass
