"""Figures of whole runs by their logs: trends, and what is no symptom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.published_runs import write_lines
from vrtspike.analysis.figures import RunFigures, run_figures
from vrtspike.analysis.findings import find
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.settings import Settings

Record = dict[str, Any]
Change = Callable[[Record], Record]

STEPS = 60
VALIDATED = range(10, STEPS + 1, 10)

GOOD_MS = {
    "step/data": 4.0, "step/forward/vrt/stage8": 100.0, "step/forward/vrt/fusion1": 20.0,
    "step/forward": 200.0, "step/loss": 5.0, "step/backward": 380.0, "step/sync": 10.0,
    "step/optimizer": 5.0, "step": 605.0,
}  # fmt: skip


def timing(step: int) -> Record:
    ms = dict(GOOD_MS)
    if step in VALIDATED:
        ms |= {"validation": 100.0, "checkpoint": 20.0}
    return {"kind": "step", "step": step, "time": 0.6 * step, "samples": 2, "frames": 6, "ms": ms}


def training(step: int) -> Record:
    return {
        "kind": "train", "step": step, "loss": 1.0 / step, "grad_norm": 2.0 - step / STEPS,
        "skipped": False,
    }  # fmt: skip


def validation(step: int) -> Record:
    return {"kind": "validation", "step": step, "psnr": 25.0 + step / STEPS, "ssim": 0.9}


def memory(step: int) -> Record:
    return {
        "kind": "memory", "step": step, "time": 0.6 * step, "process_mb": 4000 + step,
        "children_mb": 1000, "system_total_mb": 64_000, "system_percent": 40.0,
        "gpu": {"utilisation_percent": 93, "peak_mb": 38_000, "total_mb": 48_000},
        "cache": {"hit_rate": 0.9, "full": True, "items": 500},
    }  # fmt: skip


def run(folder: Path, *, occupy: Change = dict) -> RunFigures:
    """The figures of a run whose log lines were changed."""
    steps = range(1, STEPS + 1)
    write_lines(folder / "timing.jsonl", map(timing, steps))
    write_lines(folder / "metrics.jsonl", [*map(training, steps), *map(validation, VALIDATED)])
    categories = {
        "kind": "gpu_categories", "activations_mb": 30_000.0,
        "peak_mb": 38_000.0,
    }  # fmt: skip
    lines = (occupy(memory(step)) for step in range(0, STEPS + 1, 4))
    write_lines(folder / "memory.jsonl", [*lines, categories])
    return run_figures(read_run_logs(folder), micro_batches=1, metrics=METRICS)


def growing(record: Record) -> Record:
    return record | {"process_mb": 4000 + 50 * record["step"]}


def filling(record: Record) -> Record:
    return growing(record) | {"cache": record["cache"] | {"items": 10 * record["step"]}}


def with_a_peak(record: Record) -> Record:
    return record | ({"children_mb": 9000} if record["step"] == STEPS else {})


def mostly_idle(record: Record) -> Record:
    """And growing."""
    busy = 93 if record["step"] == 20 else 20
    return growing(record) | {"gpu": record["gpu"] | {"utilisation_percent": busy}}


@pytest.mark.parametrize("occupy", [dict, filling, with_a_peak])
def test_what_is_no_symptom(occupy, tmp_path):
    """A good run; one whose cache is being filled; and a peak of one line, which is no growth."""
    assert find(run(tmp_path, occupy=occupy), Settings()) == []


def test_figures_of_trends(tmp_path):
    figures = run(tmp_path, occupy=mostly_idle)
    health, memory_figures, speed = figures.health, figures.memory, figures.speed
    # The tenth is six steps: medians of 1 / 1 ... 1 / 6 and of 1 / 55 ... 1 / 60.
    assert health.first_losses == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert health.last_losses == pytest.approx((1 / 57 + 1 / 58) / 2)
    # Lines at 0, 4 ... 60; from the ninth, at 32, on: 50 MB a step, the least of three lines each.
    assert memory_figures.growth_mb == 50 * (52 - 32)
    assert memory_figures.growth_steps == 60 - 32
    assert memory_figures.cache_is_full
    assert memory_figures.gpu_utilisation == 20  # it was busy once
    whole = 59 * 605
    aside = 6 * 100 + 6 * 20
    assert speed.validation_share == pytest.approx(600 / (whole + aside))
    assert speed.checkpoint_share == pytest.approx(120 / (whole + aside))


def test_a_short_run_has_no_trends(publish):
    figures = run_figures(read_run_logs(publish()), 1, metrics=METRICS)
    assert (figures.health.first_losses, figures.memory.growth_mb) == (None, None)
    assert figures.speed.validation_share is None
