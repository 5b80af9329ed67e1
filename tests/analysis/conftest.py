"""A run with irregular logs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.published_runs import write_lines

STEPS = 61
PARTS = {
    "step/data": (10, 90), "step/forward/vrt/stage1": (20, 40), "step/forward/vrt/stage2": (60, 80),
    "step/forward/spike_encoder": (5, 9), "step/backward/recomputation": (20, 60),
    "own": (100, 200), "validation": (50, 150),
}  # fmt: skip


@pytest.fixture(scope="session")
def section_ms() -> pd.DataFrame:
    """Times of a run's sections by step: irregular, with a slow first step."""
    rng = np.random.default_rng(5)
    ms = pd.DataFrame({name: rng.uniform(*ends, STEPS) for name, ends in PARTS.items()})
    ms["step/forward/vrt"] = ms["step/forward/vrt/stage1"] + ms["step/forward/vrt/stage2"] + 1
    ms["step/forward"] = ms["step/forward/vrt"] + ms["step/forward/spike_encoder"] + 1
    ms["step/backward"] = ms["step/backward/recomputation"] + ms.pop("own")
    ms["step"] = ms["step/data"] + ms["step/forward"] + ms["step/backward"] + 20
    ms.iloc[0] *= 50
    ms.loc[ms.index % 10 != 9, "validation"] = math.nan
    return ms


@pytest.fixture(scope="session")
def log_records(section_ms) -> dict[str, list[dict[str, Any]]]:
    """The lines of the run's logs."""
    rng = np.random.default_rng(6)
    steps = range(1, STEPS + 1)
    train = pd.DataFrame({"kind": "train", "step": steps, "loss": rng.uniform(0.1, 2, STEPS)})
    train["grad_norm"] = rng.lognormal(0, 1, STEPS)
    validation = {"step": [10, 20, 30], "psnr": [20.0, 31.5, 29.0], "ssim": [0.95, 0.8, 0.9]}
    timing = pd.DataFrame({"kind": "step", "step": steps, "time": 0.0})
    timing["samples"], timing["frames"] = rng.integers(3, 9, STEPS), rng.integers(20, 60, STEPS)
    timing["ms"] = [row.dropna().to_dict() for _, row in section_ms.iterrows()]
    memory = [
        {
            "kind": "memory", "step": step, "time": 0.0, "process_mb": rss, "children_mb": children,
            "system_percent": percent, "cache": {"hit_rate": rate},
            "gpu": {"peak_mb": peak, "total_mb": 9000, "utilisation_percent": busy},
        }
        for step, rss, children, percent, rate, peak, busy in (
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


@pytest.fixture(scope="session")
def log_folder(log_records, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for name, lines in log_records.items():
        write_lines(folder / f"{name}.jsonl", lines)
    return folder
