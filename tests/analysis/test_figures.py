"""Figures of a run with irregular logs, worked out again with NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.published_runs import write_lines
from vrtspike.analysis.figures import (
    RunFigures,
    run_figures,
    summarize_sections,
    throughput,
)
from vrtspike.analysis.performance import figures_table
from vrtspike.analysis.run_logs import read_run_logs
from vrtspike.deblurring.metrics.registry import METRICS

STEPS, MICRO = 41, 3
LEAVES = ("vrt/stage1", "vrt/stage2", "spike_encoder")


@pytest.fixture(scope="module")
def raw() -> dict[str, Any]:
    """What a run measured; nothing is regular, and the first step is far off."""
    rng = np.random.default_rng(5)
    ms = {
        "step/data": rng.uniform(10, 90, STEPS),
        "step/forward/vrt/stage1": rng.uniform(20, 40, STEPS),
        "step/forward/vrt/stage2": rng.uniform(60, 80, STEPS),
        "step/forward/spike_encoder": rng.uniform(5, 9, STEPS),
        "step/backward/recomputation": rng.uniform(20, 60, STEPS),
    }
    ms["step/forward/vrt"] = sum(ms[f"step/forward/vrt/stage{n}"] for n in (1, 2)) + 1
    ms["step/forward"] = ms["step/forward/vrt"] + ms["step/forward/spike_encoder"] + 1
    ms["step/backward"] = ms["step/backward/recomputation"] + rng.uniform(100, 200, STEPS)
    ms["step"] = ms["step/data"] + ms["step/forward"] + ms["step/backward"] + 20
    for values in ms.values():
        values[0] *= 50
    return {
        "ms": ms,
        "samples": rng.integers(3, 9, STEPS),
        "frames": rng.integers(20, 60, STEPS),
        "loss": rng.uniform(0.1, 2, STEPS),
        "norm": rng.lognormal(0, 1, STEPS),
        "psnr": [20.0, 31.5, 29.0],
        "ssim": [0.95, 0.8, 0.9],
        "memory": {
            "process_mb": [900, 1500, 1000],
            "children_mb": [500, 100, 700],
            "system_percent": [30.0, 70.0, 50.0],
        },
        "gpu": {
            "peak_mb": [5000, 8000, 7000],
            "total_mb": [9000, 9000, 9000],
            "utilisation_percent": [40, 95, 60],
        },
        "hits": [0.1, 0.7, 0.4],
    }


@pytest.fixture(scope="module")
def folder(raw, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    steps = range(1, STEPS + 1)
    train = [
        {"kind": "train", "step": n, "loss": raw["loss"][n - 1], "grad_norm": raw["norm"][n - 1]}
        for n in steps
    ]
    validation = [
        {"kind": "validation", "step": 10 * n, "psnr": psnr, "ssim": ssim}
        for n, (psnr, ssim) in enumerate(zip(raw["psnr"], raw["ssim"], strict=True), 1)
    ]
    timing = [
        {
            "kind": "step", "step": n, "time": float(n), "samples": int(raw["samples"][n - 1]),
            "frames": int(raw["frames"][n - 1]),
            "ms": {name: float(values[n - 1]) for name, values in raw["ms"].items()},
        }
        for n in steps
    ]  # fmt: skip
    memory = [
        {
            "kind": "memory", "step": n + 1, "time": float(n),
            **{name: values[n] for name, values in raw["memory"].items()},
            "gpu": {name: values[n] for name, values in raw["gpu"].items()},
            "cache": {"hit_rate": raw["hits"][n]},
        }
        for n in range(3)
    ]  # fmt: skip
    memory.append({"kind": "gpu_categories", "activations_mb": 123.0, "peak_mb": 8000.0})
    for name, lines in (
        ("metrics", train + validation), ("timing", timing), ("memory", memory)
    ):  # fmt: skip
        write_lines(folder / f"{name}.jsonl", lines)
    return folder


@pytest.fixture(scope="module")
def figures(folder) -> RunFigures:
    return run_figures(read_run_logs(folder), MICRO, metrics=METRICS)


def test_speed(raw, figures):
    ms = {name: values[1:] for name, values in raw["ms"].items()}
    whole = ms["step"].sum()
    speed = figures.speed
    assert speed.step_ms == pytest.approx(ms["step"].mean())
    assert speed.data_ms == pytest.approx(ms["step/data"].mean() / MICRO)
    assert speed.data_share == pytest.approx(ms["step/data"].sum() / whole)
    assert speed.forward_ms == pytest.approx(ms["step/forward"].mean() / MICRO)
    share = ms["step/backward/recomputation"].sum() / whole
    assert speed.recomputation_share == pytest.approx(share)
    assert speed.slowest_section == (
        "vrt/stage2", pytest.approx(ms["step/forward/vrt/stage2"].mean() / MICRO)
    )  # fmt: skip
    parts = {name: ms[f"step/{name}"].sum() / whole for name in ("data", "forward", "backward")}
    assert speed.step_parts == pytest.approx(parts | {"other": 20 * (STEPS - 1) / whole})
    assert speed.samples_per_second == pytest.approx(raw["samples"][1:].sum() / whole * 1e3)


def test_health_and_memory(raw, figures):
    health, memory = figures.health, figures.memory
    assert (health.logged_steps, health.losses_not_finite) == (STEPS, 0)
    assert health.last_loss == pytest.approx(raw["loss"][-1])
    assert health.gradient_norm_median == pytest.approx(np.median(raw["norm"]))
    assert health.gradient_norm_max == pytest.approx(raw["norm"].max())
    assert health.best == {"psnr": 31.5, "ssim": 0.95}
    # The largest sum, not the sum of the largest.
    assert memory.process_mb == 1700
    assert memory.system_percent == 70
    assert (memory.gpu_peak_mb, memory.gpu_total_mb) == (8000, 9000)
    assert (memory.gpu_activations_mb, memory.gpu_utilisation) == (123, 60)
    assert memory.cache_hit_rate == 0.4


def test_the_page_shows_them_with_their_units(raw, figures):
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
        "last loss": f"{raw['loss'][-1]:.4g}",
        "best validation PSNR": "31.50 dB",
        "best validation SSIM": "0.9500",
        "memory of the run": "1700 MB",
        "system memory at most": "70 %",
        "GPU memory at the peak": "8000 MB",
        "cache hit rate": "40%",
    }
    assert set(figures_table(RunFigures(), METRICS)["value"]) == {"–", "0"}


def test_sections(raw, folder):
    table = summarize_sections(read_run_logs(folder).timing).set_index("section")
    assert set(table.index) == set(raw["ms"])
    whole = raw["ms"]["step"][1:].sum()
    for name, values in raw["ms"].items():
        steady = values[1:]
        assert table.loc[name].to_dict() == pytest.approx(
            {
                "depth": name.count("/"),
                "count": STEPS - 1,
                "mean": steady.mean(),
                "p50": np.median(steady),
                "p95": np.quantile(steady, 0.95),
                "min": steady.min(),
                "max": steady.max(),
                "share": steady.sum() / whole,
            }
        )


@pytest.mark.parametrize(("points", "width"), [(100, 1), (41, 1), (40, 2), (10, 5)])
def test_throughput_of_neighbouring_steps(raw, folder, points, width):
    logs = read_run_logs(folder)
    table = throughput(logs.steps, logs.timing, points=points)
    parts = [slice(start, min(start + width, STEPS)) for start in range(0, STEPS, width)]
    assert table["step"].tolist() == [part.stop for part in parts]
    for column, counts in (("samples_per_second", "samples"), ("frames_per_second", "frames")):
        expected = [1e3 * raw[counts][part].sum() / raw["ms"]["step"][part].sum() for part in parts]
        assert table[column].tolist() == pytest.approx(expected)


def test_a_loss_that_is_lost_at_last_is_no_figure(folder, tmp_path):
    text = (folder / "metrics.jsonl").read_text()
    nothing = {"kind": "train", "step": STEPS + 1, "loss": None, "grad_norm": math.inf}
    (tmp_path / "metrics.jsonl").write_text(text + json.dumps(nothing) + "\n")
    health = run_figures(read_run_logs(tmp_path), 1, metrics=METRICS).health
    assert (health.last_loss, health.losses_not_finite) == (None, 1)
    assert health.first_not_finite == STEPS + 1
    assert health.gradient_norm_max is None
    assert pd.notna(health.gradient_norm_median)


def test_the_best_validation_is_the_lowest_where_lower_is_better(publish):
    folder = publish()
    with (folder / "metrics.jsonl").open("a") as stream:
        for step, psnr, lpips in ((6, 29.0, 0.25), (7, None, 0.5)):
            record = {"kind": "validation", "step": step, "psnr": psnr, "lpips": lpips}
            record["psnr_y"] = math.inf  # of equal frames
            stream.write(json.dumps(record) + "\n")
    best = run_figures(read_run_logs(folder), 1, metrics=METRICS).health.best
    assert best == {"psnr": 30, "ssim": 0.9, "lpips": 0.25}


def timing(*steps: dict[str, float]) -> pd.DataFrame:
    rows = [(n, name, ms) for n, step in enumerate(steps, 1) for name, ms in step.items()]
    return pd.DataFrame(rows, columns=["step", "section", "ms"])


def test_nothing_and_a_single_step():
    assert summarize_sections(timing({"step": 7.0}))["p50"].tolist() == [7.0]
    steps = pd.DataFrame({"step": [1], "samples": [2], "frames": [6]})
    assert throughput(steps.iloc[:0], timing()).empty
