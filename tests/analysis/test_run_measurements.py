"""Measurements of a run with irregular logs, computed again with pandas."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest

from tests.analysis.conftest import STEPS
from tests.helpers.published_runs import write_lines
from vrtspike.analysis.performance import measurements_table
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.analysis.run_measurements import RunMeasurements, measure_run
from vrtspike.io.files import write_json
from vrtspike.metrics.registry import METRICS

MICRO = 3


@pytest.fixture(scope="module")
def measurements(log_folder) -> RunMeasurements:
    return measure_run(read_run_logs(log_folder), MICRO, METRICS)


def test_speed_follows_from_the_means_of_sections(section_ms, log_records, measurements):
    speed = measurements.speed
    ms = section_ms[1:]
    samples = pd.DataFrame(log_records["timing"])["samples"][1:]
    total = ms.sum()
    mean = ms.mean()
    share = total / total["step"]
    assert speed.step_ms == pytest.approx(mean["step"])
    assert speed.data_ms == pytest.approx(mean["step/data"] / MICRO)
    assert speed.data_share == pytest.approx(share["step/data"])
    assert speed.forward_ms == pytest.approx(mean["step/forward"] / MICRO)
    assert speed.recomputation_share == pytest.approx(share["step/backward/recomputation"])
    stage, slowest = speed.slowest_section
    assert (stage, slowest * MICRO) == ("vrt/stage2", pytest.approx(mean[f"step/forward/{stage}"]))
    parts = {name: share[f"step/{name}"] for name in ("data", "forward", "backward")}
    assert speed.step_parts == pytest.approx(parts | {"other": 20 * len(ms) / total["step"]})
    assert speed.samples_per_second == pytest.approx(samples.sum() / total["step"] * 1e3)


@pytest.mark.parametrize("starts", [[0], [0, 50], [0, 50, 50, 99, 100]])
def test_each_start_compiles_and_its_first_step_is_left_out(tmp_path, starts):
    compiles = {start + 1 for start in starts}
    step_ms = {step: 60_000.0 if step in compiles else 100.0 for step in range(1, 101)}
    timing = [
        {
            "kind": "step", "step": step, "time": 0.0, "samples": 2, "frames": 6,
            "ms": {"step": ms, "step/data": 25.0},
        }
        for step, ms in step_ms.items()
    ]  # fmt: skip
    write_lines(tmp_path / "timing.jsonl", timing)
    write_lines(tmp_path / "metrics.jsonl", [{"kind": "train", "step": 1, "loss": 1.0}])
    record = {"status": "finished", "starts": [{"time": 0.0, "step": step} for step in starts]}
    write_json(tmp_path / "run.json", record)
    speed = measure_run(read_run_logs(tmp_path), 1, METRICS).speed
    assert (speed.step_ms, speed.data_share, speed.samples_per_second) == (100, 0.25, 20)


def test_health_and_memory_summarise_the_logs(log_records, measurements):
    health, memory = measurements.health, measurements.memory
    train = pd.DataFrame(log_records["metrics"])[:STEPS]
    assert (health.logged_steps, health.losses_not_finite) == (STEPS, 0)
    assert health.last_loss == pytest.approx(train["loss"].iloc[-1])
    # A tenth is six steps.
    assert health.first_gradient_norms == pytest.approx(train["grad_norm"][:6].median())
    assert health.last_gradient_norms == pytest.approx(train["grad_norm"][-6:].median())
    assert health.gradient_norm_median == pytest.approx(train["grad_norm"].median())
    assert health.gradient_norm_max == pytest.approx(train["grad_norm"].max())
    assert health.best == {"psnr": 31.5, "ssim": 0.95}
    # The largest sum, not the sum of the largest; the median utilisation of the GPU.
    assert memory.process_mb == 1700
    assert memory.system_percent == 70
    assert (memory.gpu_peak_mb, memory.gpu_total_mb) == (8000, 9000)
    assert (memory.gpu_activations_mb, memory.gpu_utilisation) == (123, 60)
    assert memory.cache_hit_rate == 0.4


def test_the_page_shows_them_with_their_units(measurements):
    speed = measurements.speed
    shown = dict(measurements_table(measurements, METRICS).itertuples(index=False))
    assert shown == {
        "step": f"{speed.step_ms:.1f} ms",
        "forward pass of one micro-batch": f"{speed.forward_ms:.1f} ms",
        "wait for one batch": f"{speed.data_ms:.1f} ms",
        "share of waiting": f"{100 * speed.data_share:.1f}%",
        "slowest section": f"vrt/stage2, {speed.slowest_section[1]:.1f} ms",
        "throughput": f"{speed.samples_per_second:.3f} samples/s",
        "logged steps": str(STEPS),
        "last loss": f"{measurements.health.last_loss:.4g}",
        "best validation PSNR": "31.50 dB",
        "best validation SSIM": "0.9500",
        "memory of the run": "1700 MB",
        "system memory at most": "70 %",
        "GPU memory at the peak": "8000 MB",
        "cache hit rate": "40%",
    }
    assert set(measurements_table(RunMeasurements(), METRICS)["value"]) == {"–", "0"}


def test_a_last_loss_that_is_not_finite_is_missing(log_folder, tmp_path):
    text = (log_folder / "metrics.jsonl").read_text()
    nothing = {"kind": "train", "step": STEPS + 1, "loss": None, "grad_norm": math.inf}
    (tmp_path / "metrics.jsonl").write_text(text + json.dumps(nothing) + "\n")
    health = measure_run(read_run_logs(tmp_path), 1, METRICS).health
    assert (math.isnan(health.last_loss), health.losses_not_finite) == (True, 1)
    assert health.first_not_finite == STEPS + 1
    # The largest norm that is a number.
    assert math.isfinite(health.gradient_norm_max)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n')
    assert measure_run(read_run_logs(tmp_path), 1, METRICS).health.losses_not_finite == 1


def test_a_short_run_has_no_trends_and_the_best_value_follows_the_direction_of_the_metric(publish):
    folder = publish()
    records = [
        {"kind": "validation", "step": 6, "psnr": 29.0, "lpips": 0.25},
        # Of equal frames.
        {"kind": "validation", "step": 7, "psnr": None, "lpips": 0.5, "psnr_y": math.inf},
    ]
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)
    measurements = measure_run(read_run_logs(folder), 1, METRICS)
    assert measurements.health.best == {"psnr": 30, "ssim": 0.9, "lpips": 0.25}
    assert math.isnan(measurements.health.first_gradient_norms)
    assert math.isnan(measurements.memory.growth_mb)


@pytest.mark.parametrize(
    ("each_step", "cached", "peak", "growth"),
    [
        # Lines at 0, 4 ... 60: from the ninth, at 32, on; the minimum of three lines each.
        (50, 500, 1000, 50 * (52 - 32)),
        # A peak of one line is no growth.
        (1, 500, 9000, 52 - 32),
        # While a cache is being filled growth is normal.
        (50, None, 1000, math.nan),
    ],
)
def test_growth_of_memory(tmp_path, each_step, cached, peak, growth):
    lines = [
        {
            "kind": "memory", "step": step, "time": 0.0, "process_mb": 4000 + each_step * step,
            "children_mb": peak if step == 60 else 1000,
            "cache": {"hit_rate": 0.9, "full": True, "items": cached or 10 * step},
        }
        for step in range(0, 61, 4)
    ]  # fmt: skip
    write_lines(tmp_path / "memory.jsonl", lines)
    write_lines(tmp_path / "metrics.jsonl", [{"kind": "train", "step": 1, "loss": 1.0}])
    memory = measure_run(read_run_logs(tmp_path), 1, {}).memory
    assert memory.growth_mb == pytest.approx(growth, nan_ok=True)
    assert memory.growth_steps == (None if math.isnan(growth) else 60 - 32)
    assert memory.cache_is_full


def test_memory_of_an_earlier_start_is_no_growth(tmp_path):
    """Two starts, each of constant memory; the second one repeats the steps from 40 on."""

    def line(step: int, time: float, process_mb: int) -> dict[str, Any]:
        return {
            "kind": "memory", "step": step, "time": time, "process_mb": process_mb,
            "children_mb": 0,
        }  # fmt: skip

    first = [line(step, 100.0 + step, 2000) for step in range(0, 61, 4)]
    second = [line(step, 1000.0 + step, 6000) for step in range(44, 53, 4)]
    write_lines(tmp_path / "metrics.jsonl", [{"kind": "train", "step": 1, "loss": 1.0}])
    starts = [{"time": 100.0, "step": 0}, {"time": 1000.0, "step": 40}]
    write_json(tmp_path / "run.json", {"status": "running", "starts": starts})
    write_lines(tmp_path / "memory.jsonl", [*first, *second])
    # Three lines of the second start are too few.
    assert math.isnan(measure_run(read_run_logs(tmp_path), 1, {}).memory.growth_mb)
    more = [line(step, 1000.0 + step, 6000 + step) for step in range(44, 101, 4)]
    write_lines(tmp_path / "memory.jsonl", [*first, *more])
    memory = measure_run(read_run_logs(tmp_path), 1, {}).memory
    # Of fifteen lines the second half begins with the eighth, at step 72; three lines before 100.
    assert (memory.growth_mb, memory.growth_steps) == (92 - 72, 100 - 72)
