from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from vrtspike.training.batches import LoaderOptions, ValidationBatches
from vrtspike.training.checkpoints import list_checkpoints, read_checkpoint
from vrtspike.training.signals import StopRequest

from .setup_run import forecast_settings, forecast_trainer, records

PROGRAM = Path(__file__).with_name("forecast_run.py")
RUN = {"GRADIENT_ACCUMULATION_STEPS": 1, "MAX_STEPS": 40}


def start(folder: Path, train: dict[str, Any], ranks: int, workers: int = 0) -> subprocess.Popen:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(ranks), str(PROGRAM), str(folder), json.dumps(train)),
        str(workers),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def complete(process: subprocess.Popen) -> None:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def steps_of(folder: Path) -> list[int]:
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line)["step"] for line in path.read_text().splitlines(keepends=True)[:-1]]


def wait_for_step(folder: Path, step: int, process: subprocess.Popen) -> None:
    while not any(found >= step for found in steps_of(folder)):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(list_checkpoints(folder / "checkpoints")[0][1])["model"]


def train_alone(folder: Path, train: dict[str, Any]) -> None:
    trainer = forecast_trainer(folder, forecast_settings(train), samples=11)
    with StopRequest() as stop:
        assert trainer.run(stop) == "finished"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """A run of two processes that accumulate one micro-batch each."""
    folder = tmp_path_factory.mktemp("two")
    complete(start(folder, RUN, 2))
    return folder


def test_two_processes_compute_what_one_computes_with_accumulation(undisturbed, tmp_path):
    train_alone(tmp_path, {**RUN, "GRADIENT_ACCUMULATION_STEPS": 2})
    for name, value in weights(tmp_path).items():
        torch.testing.assert_close(value, weights(undisturbed)[name], rtol=2e-3, atol=2e-4)
    one, two = records(tmp_path), records(undisturbed)
    assert [r["step"] for r in one] == [r["step"] for r in two]
    first = [(a["loss"], b["loss"]) for a, b in zip(one, two, strict=True) if a["kind"] == "train"]
    assert [a for a, _ in first[:5]] == pytest.approx([b for _, b in first[:5]], rel=1e-4)
    last = [r["skill"] for r in (one[-1], two[-1])]
    assert last[0] == pytest.approx(last[1], abs=1e-3)


def test_gradient_exchange_is_timed_apart_from_backward(undisturbed):
    (path,) = (undisturbed / "logs").glob("timing_*.jsonl")
    ms = json.loads(path.read_text().splitlines()[-1])["ms"]
    assert ms["step/sync"] > 0
    assert ms["step/backward"] + ms["step/sync"] <= ms["step"]


def test_crash_and_stop_of_one_process_leave_the_result_as_it_is(undisturbed, tmp_path):
    process = start(tmp_path, RUN, 2)
    wait_for_step(tmp_path, 9, process)
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    process.communicate(timeout=120)
    process = start(tmp_path, RUN, 2)
    wait_for_step(tmp_path, 18, process)
    # Only one of the processes hears the request; both must stop after the same step.
    os.kill(children(process.pid)[-1], signal.SIGUSR1)
    output, _ = process.communicate(timeout=120)
    assert "exitcode  : 75" in output
    assert list_checkpoints(tmp_path / "checkpoints")[0][0] == records(tmp_path)[-1]["step"]
    complete(start(tmp_path, RUN, 2))
    assert records(tmp_path) == records(undisturbed)
    for name, value in weights(undisturbed).items():
        assert torch.equal(value, weights(tmp_path)[name])


def test_continues_on_another_number_of_processes(undisturbed, tmp_path):
    process = start(tmp_path, RUN, 2)
    wait_for_step(tmp_path, 9, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    train_alone(tmp_path, RUN)
    for name, value in weights(tmp_path).items():
        torch.testing.assert_close(value, weights(undisturbed)[name], rtol=2e-3, atol=2e-4)
    assert [r["step"] for r in records(tmp_path)] == [r["step"] for r in records(undisturbed)]


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_every_validation_sample_belongs_to_one_process():
    class Numbers:
        def __len__(self) -> int:
            return 11

        def __getitem__(self, index: int) -> int:
            return index

    parts = [ValidationBatches(Numbers(), 2, rank, 3, LoaderOptions()) for rank in range(3)]
    seen = [int(n) for part in parts for batch in part for n in batch]
    assert sorted(seen) == list(range(11))
    assert [part.rounds for part in parts] == [2, 2, 2]
