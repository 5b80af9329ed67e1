"""Metrics of restored and blurry frames, collected into tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import torch

from vrtspike.deblurring.metrics import METRICS, Image
from vrtspike.deblurring.perceptual import Missing, load_lpips

Metric = Callable[[Image, Image], float]

KEYS = ["sequence", "frame", "scale"]
BLURRY = "_blur"
"""Suffix of a metric's column for the blurry input."""


def select_metrics(
    names: Sequence[str], weights_dir: str, device: torch.device
) -> tuple[dict[str, Metric], dict[str, str]]:
    """The metrics of TEST.METRICS.

    Args:
        names: which ones.
        weights_dir: where LPIPS looks for its backbone.
        device: where LPIPS computes.

    Returns:
        the metrics that can be computed, and for the others the reason why not.
    """
    found: dict[str, Metric] = {}
    missing: dict[str, str] = {}
    for name in names:
        if name != "lpips":
            found[name] = METRICS[name]
            continue
        lpips = load_lpips(weights_dir, device)
        if isinstance(lpips, Missing):
            missing[name] = lpips.reason
        else:
            found[name] = lpips
    return found, missing


def measure_frame(
    metrics: Mapping[str, Metric], blur: Image, restored: Image, sharp: Image
) -> dict[str, float]:
    """Each metric of the blurry input (``<name>_blur``) and of the restored frame (``<name>``)."""
    row = {}
    for name, metric in metrics.items():
        row[name + BLURRY] = metric(blur, sharp)
        row[name] = metric(restored, sharp)
    return row


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Mean over the frames of each sequence, with their number in ``frames``."""
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby(["sequence", "scale"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def overall_means(
    sequences: pd.DataFrame, scale: float, missing: Mapping[str, str]
) -> dict[str, dict[str, float | str | None]]:
    """Mean over the sequences of one scale.

    Args:
        sequences: from :func:`sequence_means`.
        scale: which scale.
        missing: metrics without figures and the reason.

    Returns:
        by metric ``blurry``, ``restored`` and ``gain`` (restored less blurry); null, with the
        ``reason``, where there is no finite number.
    """
    rows = sequences[sequences["scale"] == scale]
    means: dict[str, dict[str, float | str | None]] = {}
    for name in rows.columns:
        if name + BLURRY not in rows:
            continue
        blurry, restored = float(rows[name + BLURRY].mean()), float(rows[name].mean())
        gain = restored - blurry
        entry = {"blurry": blurry, "restored": restored, "gain": gain}
        means[name] = {key: value if math.isfinite(value) else None for key, value in entry.items()}
        if not math.isfinite(gain):
            means[name]["reason"] = "some frames equal the sharp ones: the mean is not finite"
    for name, reason in missing.items():
        means[name] = {"blurry": None, "restored": None, "gain": None, "reason": reason}
    return means
