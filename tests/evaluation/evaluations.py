"""Evaluations of the small run, the files that it reads, and a table of metrics by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.helpers.small_run import SmallRun
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.io.images import read_rgb
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published
from vrtspike.system.progress_bar import ProgressCallback

CPU = torch.device("cpu")
FRAMES = [f"{number:06d}" for number in range(1, 6)]
"""Names of the frames of every sequence."""

FRAME_METRICS = pd.DataFrame(
    [
        *[("a", n, 20.0, value) for n, value in enumerate((30.0, 31.0, 38.0))],
        ("b", 0, 22.0, 25.0),
        *[("c", n, 24.0 + n, 24.0) for n in range(2)],
    ],
    columns=["sequence", "frame", "psnr_blur", "psnr"],
).assign(protocol="own")
"""PSNR of three sequences of different lengths."""


def raw_frames(small_run: SmallRun, sequence: str, kind: str) -> np.ndarray:
    """The frames of a test sequence as their files hold them, (5, 48, 64, 3)."""
    folder = small_run.raw / "test" / sequence / kind
    return np.stack([read_rgb(folder / f"{name}.png") for name in FRAMES])


def evaluate(
    small_run: SmallRun,
    output: Path,
    *overrides: str,
    dataset: Path | None = None,
    progress: ProgressCallback = lambda done, total: None,
) -> dict[str, Any]:
    """Evaluate the small run; returns its summary."""
    run = read_published(small_run.train).with_overrides(overrides)
    weights = small_run.train / "weights.safetensors"
    data = dataset or small_run.dataset
    return evaluate_run(EvaluationJob(weights, run, data, output, CPU, progress))
