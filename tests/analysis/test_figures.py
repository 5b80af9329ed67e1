"""Figures of a run with irregular logs, worked out again with pandas."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.published_runs import write_lines
from vrtspike.analysis.figures import RunFigures, run_figures, summarize_sections, throughput
from vrtspike.analysis.performance import figures_table
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.metrics.registry import METRICS

STEPS, MICRO = 61, 3
PARTS = {
    "step/data": (10, 90), "step/forward/vrt/stage1": (20, 40), "step/forward/vrt/stage2": (60, 80),
    "step/forward/spike_encoder": (5, 9), "step/backward/recomputation": (20, 60),
    "own": (100, 200), "validation": (50, 150),
}  # fmt: skip


@pytest.fixture(scope="module")
def ms() -> pd.DataFrame:
    """Sections of a run by step; nothing is regular, and the first step is far off."""
    rng = np.random.default_rng(5)
    ms = pd.DataFrame({name: rng.uniform(*ends, STEPS) for name, ends in PARTS.items()})
    ms["step/forward/vrt"] = ms["step/forward/vrt/stage1"] + ms["step/forward/vrt/stage2"] + 1
    ms["step/forward"] = ms["step/forward/vrt"] + ms["step/forward/spike_encoder"] + 1
    ms["step/backward"] = ms["step/backward/recomputation"] + ms.pop("own")
    ms["step"] = ms["step/data"] + ms["step/forward"] + ms["step/backward"] + 20
    ms.iloc[0] *= 50
    ms.loc[ms.index % 10 != 9, "validation"] = math.nan
    return ms


@pytest.fixture(scope="module")
def records(ms) -> dict[str, list[dict[str, Any]]]:
    """The lines of its logs."""
    rng, steps = np.random.default_rng(6), range(1, STEPS + 1)
    train = pd.DataFrame({"kind": "train", "step": steps, "loss": rng.uniform(0.1, 2, STEPS)})
    train["grad_norm"] = rng.lognormal(0, 1, STEPS)
    validation = {"step": [10, 20, 30], "psnr": [20.0, 31.5, 29.0], "ssim": [0.95, 0.8, 0.9]}
    timing = pd.DataFrame({"kind": "step", "step": steps, "time": 0.0})
    timing["samples"], timing["frames"] = rng.integers(3, 9, STEPS), rng.integers(20, 60, STEPS)
    timing["ms"] = [row.dropna().to_dict() for _, row in ms.iterrows()]
    memory = [
        {
            "kind": "memory", "step": step, "time": 0.0, "process_mb": own, "children_mb": children,
            "system_percent": percent, "cache": {"hit_rate": rate},
            "gpu": {"peak_mb": peak, "total_mb": 9000, "utilisation_percent": busy},
        }
        for step, own, children, percent, rate, peak, busy in (
            (1, 900, 500, 30.0, 0.1, 5000, 40), (2, 1500, 100, 70.0, 0.7, 8000, 95),
            (3, 1000, 700, 50.0, 0.4, 7000, 60),
        )
    ]  # fmt: skip
    categories = {"kind": "gpu_categories", "activations_mb": 123.0, "peak_mb": 8000.0}
    validated = pd.DataFrame({"kind": "validation", **validation})
    return {
        "metrics": train.to_dict("records") + validated.to_dict("records"),
        "timing": timing.to_dict("records"),
        "memory": [*memory, categories],
    }


@pytest.fixture(scope="module")
def folder(records, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for name, lines in records.items():
        write_lines(folder / f"{name}.jsonl", lines)
    return folder


@pytest.fixture(scope="module")
def figures(folder) -> RunFigures:
    return run_figures(read_run_logs(folder), MICRO, METRICS)


def test_speed(ms, records, figures):
    ms, speed, samples = ms[1:], figures.speed, pd.DataFrame(records["timing"])["samples"][1:]
    total = ms.sum()
    mean, share = ms.mean(), total / total["step"]
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


def test_health_and_memory(records, figures):
    health, memory = figures.health, figures.memory
    train = pd.DataFrame(records["metrics"])[:STEPS]
    assert (health.logged_steps, health.losses_not_finite) == (STEPS, 0)
    assert health.last_loss == pytest.approx(train["loss"].iloc[-1])
    # A tenth is six steps.
    assert health.first_gradient_norms == pytest.approx(train["grad_norm"][:6].median())
    assert health.last_gradient_norms == pytest.approx(train["grad_norm"][-6:].median())
    assert health.gradient_norm_median == pytest.approx(train["grad_norm"].median())
    assert health.gradient_norm_max == pytest.approx(train["grad_norm"].max())
    assert health.best == {"psnr": 31.5, "ssim": 0.95}
    # The largest sum, not the sum of the largest; the GPU is judged by what it usually does.
    assert memory.process_mb == 1700
    assert memory.system_percent == 70
    assert (memory.gpu_peak_mb, memory.gpu_total_mb) == (8000, 9000)
    assert (memory.gpu_activations_mb, memory.gpu_utilisation) == (123, 60)
    assert memory.cache_hit_rate == 0.4


def test_the_page_shows_them_with_their_units(figures):
    speed = figures.speed
    shown = dict(figures_table(figures, METRICS).itertuples(index=False))
    assert shown == {
        "step": f"{speed.step_ms:.1f} ms",
        "forward pass of one micro-batch": f"{speed.forward_ms:.1f} ms",
        "wait for one batch": f"{speed.data_ms:.1f} ms",
        "share of waiting": f"{100 * speed.data_share:.1f}%",
        "slowest section": f"vrt/stage2, {speed.slowest_section[1]:.1f} ms",
        "throughput": f"{speed.samples_per_second:.3f} samples/s",
        "logged steps": str(STEPS),
        "last loss": f"{figures.health.last_loss:.4g}",
        "best validation PSNR": "31.50 dB",
        "best validation SSIM": "0.9500",
        "memory of the run": "1700 MB",
        "system memory at most": "70 %",
        "GPU memory at the peak": "8000 MB",
        "cache hit rate": "40%",
    }
    assert set(figures_table(RunFigures(), METRICS)["value"]) == {"–", "0"}


def test_sections(ms, folder):
    table = summarize_sections(read_run_logs(folder).timing).set_index("section")
    steady = ms[1:]
    expected = pd.DataFrame(
        {
            "depth": [name.count("/") for name in ms],
            "count": steady.count(), "mean": steady.mean(), "p50": steady.median(),
            "p95": steady.quantile(0.95), "min": steady.min(), "max": steady.max(),
            "share": steady.sum() / steady["step"].sum(),
        }
    )  # fmt: skip
    pd.testing.assert_frame_equal(table.sort_index(), expected.sort_index(), check_dtype=False,
                                  check_names=False)  # fmt: skip
    one = pd.DataFrame({"step": [1], "section": ["step"], "ms": [7.0]})
    assert summarize_sections(one)["p50"].tolist() == [7.0]


def test_throughput_of_each_step(ms, records, folder):
    logs = read_run_logs(folder)
    table = throughput(logs.steps, logs.timing)
    counts = pd.DataFrame(records["timing"])[["step", "samples", "frames"]]
    assert table["step"].tolist() == counts["step"].tolist()
    for name in ("samples", "frames"):
        expected = 1e3 * counts[name] / ms["step"]
        assert table[f"{name}_per_second"].tolist() == pytest.approx(expected.tolist())
    assert throughput(logs.steps.iloc[:0], logs.timing).empty


def test_a_loss_that_is_lost_at_last_is_no_figure(folder, tmp_path):
    text = (folder / "metrics.jsonl").read_text()
    nothing = {"kind": "train", "step": STEPS + 1, "loss": None, "grad_norm": math.inf}
    (tmp_path / "metrics.jsonl").write_text(text + json.dumps(nothing) + "\n")
    health = run_figures(read_run_logs(tmp_path), 1, METRICS).health
    assert (math.isnan(health.last_loss), health.losses_not_finite) == (True, 1)
    assert health.first_not_finite == STEPS + 1
    # The largest norm that is a number.
    assert math.isfinite(health.gradient_norm_max)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n')
    assert run_figures(read_run_logs(tmp_path), 1, METRICS).health.losses_not_finite == 1


def test_a_short_run_has_no_trends_and_its_best_is_the_lowest_where_lower_is_better(publish):
    folder = publish()
    records = [
        {"kind": "validation", "step": 6, "psnr": 29.0, "lpips": 0.25},
        # Of equal frames.
        {"kind": "validation", "step": 7, "psnr": None, "lpips": 0.5, "psnr_y": math.inf},
    ]
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)
    figures = run_figures(read_run_logs(folder), 1, METRICS)
    assert figures.health.best == {"psnr": 30, "ssim": 0.9, "lpips": 0.25}
    assert math.isnan(figures.health.first_gradient_norms)
    assert math.isnan(figures.memory.growth_mb)


@pytest.mark.parametrize(
    ("each_step", "cached", "peak", "growth"),
    [
        # Lines at 0, 4 ... 60: from the ninth, at 32, on; the least of three lines each.
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
    memory = run_figures(read_run_logs(tmp_path), 1, {}).memory
    assert memory.growth_mb == pytest.approx(growth, nan_ok=True)
    assert memory.growth_steps == (None if math.isnan(growth) else 60 - 32)
    assert memory.cache_is_full
