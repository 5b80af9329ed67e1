"""The records of a run against the values passed to them."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vrtspike.config.fields import Section
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.images import read_rgb
from vrtspike.io.records import read_records
from vrtspike.monitoring import memory
from vrtspike.monitoring.cache_stats import CacheStats
from vrtspike.monitoring.display import Display
from vrtspike.training.run_log import RunLog
from vrtspike.training.trackers import TensorBoard, Tracker

CPU = torch.device("cpu")


def step_values(step: int) -> dict[str, Any]:
    losses = {"pixel": 0.5 * step, "other": 0.25}
    return {"loss": 0.5 * step + 0.25, "losses": losses, "lr": 1e-3 / step, "skipped": step == 2}


class ListTracker(Tracker):
    """A tracker that keeps the values."""

    def __init__(self) -> None:
        self.values: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, values: dict[str, float]) -> None:
        self.values.append((step, dict(values)))


@pytest.fixture
def tracked() -> ListTracker:
    return ListTracker()


@pytest.fixture
def log(tmp_path, tracked) -> RunLog:
    log = RunLog(
        tmp_path,
        "the fingerprint",
        RunSettings(),
        Display(),
        enabled=True,
        trackers=[TensorBoard(tmp_path / "tensorboard"), tracked],
    )
    log.begin(0)
    return log


def test_values_are_in_records_tensorboard_and_trackers(log, tmp_path, tracked):
    for step in (1, 2, 3):
        log.write("train", step, 7, step_values(step))
    log.write("validation", 3, 7, {"psnr": 31.5})
    log.close()
    *records, last = read_records(tmp_path / "metrics.jsonl")
    for step, record in enumerate(records, 1):
        assert record.pop("time") > 0
        assert record == {"kind": "train", "step": step, "epoch": 7, **step_values(step)}
    assert (last["kind"], last["psnr"]) == ("validation", 31.5)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    for tag, values in (
        ("train/lr", [1e-3, 5e-4, 1e-3 / 3]),
        ("train/skipped", [0, 1, 0]),
        ("loss/pixel", [0.5, 1.0, 1.5]),
    ):
        shown = [(event.step, event.value) for event in board.Scalars(tag)]
        assert shown == [(step, pytest.approx(value)) for step, value in enumerate(values, 1)]
    (event,) = board.Scalars("validation/psnr")
    assert (event.step, event.value) == (3, 31.5)
    assert {tag for _, curves in tracked.values for tag in curves} == set(board.Tags()["scalars"])
    step, curves = tracked.values[1]
    assert (step, curves["train/lr"], curves["loss/other"]) == (2, 5e-4, 0.25)


def test_pictures_keep_their_colours(log, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    log.write_pictures(7, {"restored": picture})
    log.close()
    stored = read_rgb(tmp_path / "pictures" / "step_00000007_restored.png")
    np.testing.assert_array_equal(stored, picture)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = board.Images("restored")
    assert (event.step, event.height, event.width) == (7, 8, 12)


def test_use_of_the_cache_stands_beside_the_memory(log, tmp_path):
    log.write_memory(4, CPU, CacheStats(lookups=40, reads=10, evictions=2, limit_bytes=3 * 2**20))
    log.write_memory(5, CPU)
    log.close()
    used, none = read_records(tmp_path / "logs" / "memory.jsonl")
    assert used["cache"] == {
        "hits": 30, "misses": 10, "evictions": 2, "items": 8, "hit_rate": 0.75, "limit_mb": 3.0,
        "full": True,
    }  # fmt: skip
    assert (used["step"], none["step"], none["cache"]) == (4, 5, None)


class CacheSection(Section):
    CACHE_GB: float = 1.0


class CachedSettings(RunSettings):
    """Settings of a task that reads its data through a cache."""

    cache_key: ClassVar[str] = "SST.CACHE_GB"
    SST: CacheSection = CacheSection()


def test_a_warning_about_memory_names_the_key_of_the_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "HIGH_PERCENT", 0.0)
    log = RunLog(tmp_path, "f", CachedSettings(), Display(sys.stdout), enabled=True)
    log.begin(0)
    log.write_memory(1, CPU)
    log.close()
    shown = capsys.readouterr().out
    assert "lower SST.CACHE_GB or DATALOADER.TOTAL_WORKERS before" in shown


def test_weights_carry_the_fingerprint_of_their_run(log, tmp_path):
    models = [torch.nn.Linear(2, 3) for _ in range(2)]
    models[1].tied = models[1].weight  # two names of one tensor
    log.write_weights(models[0], "best.safetensors")
    log.write_weights(models[1], "weights.safetensors")
    log.close()
    for name, model in zip(("best", "weights"), models, strict=True):
        with safe_open(tmp_path / f"{name}.safetensors", "pt") as stored:
            assert stored.metadata()["fingerprint"] == "the fingerprint"
            assert all(torch.equal(stored.get_tensor(n), v) for n, v in model.state_dict().items())


def test_other_processes_write_nothing(tmp_path):
    log = RunLog(tmp_path, "f", RunSettings(), Display(), enabled=False)
    log.begin(0)
    log.write("train", 1, 1, step_values(1))
    log.write_pictures(1, {"a": np.zeros((2, 2, 3), np.uint8)})
    log.write_memory(1, CPU)
    log.write_weights(torch.nn.Linear(2, 3), "weights.safetensors")
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_weights_have_the_permissions_of_the_other_files_of_a_run(log, tmp_path):
    log.write_weights(torch.nn.Linear(2, 3), "weights.safetensors")
    (tmp_path / "other").touch()
    assert (tmp_path / "weights.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
