"""What stands in the records of a run, beside what was handed to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.setup_run import Notes
from vrtspike.io.images import read_rgb
from vrtspike.monitoring.display import Status
from vrtspike.monitoring.records import CacheUse, read_records
from vrtspike.training.progress import StepResult
from vrtspike.training.run_log import RunLog

CPU = torch.device("cpu")


def status(step: int) -> Status:
    return Status(step, 20, 3, 0.75, ("psnr", 30.0), 1.23456, 4.0, 60.0)


def result(step: int) -> StepResult:
    losses = {"pixel": 0.5 * step, "other": 0.25}
    return StepResult(losses, 1e-3 / step, 7.0 + step, step == 2, 4, 12, 8.7654)


@pytest.fixture
def notes() -> Notes:
    return Notes()


class Tracked(list):
    """A tracker that keeps what it is given."""

    def log(self, step: int, figures: dict[str, float]) -> None:
        self.append((step, dict(figures)))

    def close(self, finished: bool) -> None:
        """It keeps them."""


@pytest.fixture
def tracked() -> Tracked:
    return Tracked()


@pytest.fixture
def log(tmp_path, notes, tracked) -> RunLog:
    log = RunLog(tmp_path, "the fingerprint", True, True, notes, None, [tracked])
    log.begin(0)
    return log


def test_a_step_stands_in_the_records_on_the_board_and_in_trackers(log, tmp_path, tracked):
    for step in (1, 2, 3):
        log.step(status(step), result(step))
    log.close()
    records = read_records(tmp_path / "metrics.jsonl")
    for step, record in enumerate(records, 1):
        assert record.pop("time") > 0
        assert record == {
            "kind": "train", "step": step, "epoch": 3, "loss": 0.5 * step + 0.25,
            "losses": {"pixel": 0.5 * step, "other": 0.25}, "lr": 1e-3 / step,
            "grad_norm": 7.0 + step, "skipped": step == 2, "samples_per_second": 1.2346,
            "data_ms": 8.765,
        }  # fmt: skip
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    for name in ("loss", "lr", "grad_norm", "samples_per_second", "data_ms"):
        shown = [(event.step, event.value) for event in board.Scalars(f"train/{name}")]
        expected = [(record["step"], pytest.approx(record[name])) for record in records]
        assert shown == expected
    shown = [event.value for event in board.Scalars("loss/pixel")]
    assert shown == pytest.approx([0.5, 1.0, 1.5])
    step, figures = tracked[1]
    assert (step, sorted(figures)) == (2, sorted(board.Tags()["scalars"]))
    assert (figures["train/lr"], figures["loss/other"]) == (5e-4, 0.25)


def test_pictures_keep_their_colours(log, tmp_path, tracked):
    picture = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    log.validation(7, 2, {"psnr": 31.5}, {"restored": picture})
    log.close()
    stored = read_rgb(tmp_path / "pictures" / "step_00000007_restored.png")
    np.testing.assert_array_equal(stored, picture)
    (record,) = read_records(tmp_path / "metrics.jsonl")
    assert record.pop("time") > 0
    assert record == {"kind": "validation", "step": 7, "epoch": 2, "psnr": 31.5}
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = board.Scalars("validation/psnr")
    assert (event.step, event.value) == (7, 31.5)
    assert tracked == [(7, {"validation/psnr": 31.5})]


def test_an_epoch_is_recorded_and_printed(log, notes, tmp_path):
    figures = {"seconds": 125.0, "samples": 50, "samples_per_second": 0.4}
    log.epoch(9, 2, figures)
    log.close()
    (record,) = read_records(tmp_path / "metrics.jsonl")
    assert record.pop("time") > 0
    assert record == {"kind": "epoch", "step": 9, "epoch": 2, **figures}
    assert notes.notes == ["epoch 2: 2:05, 50 samples, 0.4 samples/s"]


def test_use_of_the_cache_stands_beside_the_memory(log, tmp_path):
    log.memory(4, CPU, CacheUse(lookups=40, reads=10, evictions=2, limit_bytes=3 * 2**20))
    log.memory(5, CPU)
    log.close()
    used, none = read_records(tmp_path / "logs" / "memory.jsonl")
    assert used["cache"] == {
        "hits": 30, "misses": 10, "evictions": 2, "items": 8, "hit_rate": 0.75, "limit_mb": 3.0,
        "full": True,
    }  # fmt: skip
    assert (used["step"], none["step"], none["cache"]) == (4, 5, None)


def test_weights_carry_the_fingerprint_of_their_run(log, tmp_path):
    models = [torch.nn.Linear(2, 3) for _ in range(2)]
    log.weights(models[0], "best.safetensors")
    log.weights(models[1], "weights.safetensors")
    log.close()
    for name, model in zip(("best", "weights"), models, strict=True):
        with safe_open(tmp_path / f"{name}.safetensors", "pt") as stored:
            assert stored.metadata()["fingerprint"] == "the fingerprint"
            assert torch.equal(stored.get_tensor("weight"), model.weight)


def test_other_processes_write_nothing(tmp_path):
    log = RunLog(tmp_path, "f", False, True, Notes())
    log.begin(0)
    log.step(status(1), result(1))
    log.validation(1, 1, {"psnr": 1.0}, {"a": np.zeros((2, 2, 3), np.uint8)})
    log.memory(1, CPU)
    log.weights(torch.nn.Linear(2, 3), "weights.safetensors")
    log.close()
    assert list(tmp_path.iterdir()) == []
