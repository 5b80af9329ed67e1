"""The evaluations of runs: which belongs to which run, and their figures for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.files import read_json

METRICS = ("psnr", "ssim")
KINDS = ("blurry", "restored", "gain")

QUALITY_FORMATS = {
    "psnr blurry": ".2f",
    "psnr restored": ".2f",
    "psnr gain": "+.2f",
    "ssim blurry": ".4f",
    "ssim restored": ".4f",
    "ssim gain": "+.4f",
}
"""Format specifications of the columns that :func:`quality` gives."""

Summary = Mapping[str, Any]
"""The contents of an evaluation's ``summary.json``."""


def read_evaluations(folders: Sequence[Path]) -> dict[str, Summary]:
    """The summaries of evaluations (``results/evaluate/<preset>``) by their run's fingerprint."""
    summaries = [read_json(folder / "summary.json") for folder in folders]
    return {summary["fingerprint"]: summary for summary in summaries}


def quality(summary: Summary | None, metric: str) -> dict[str, float | None]:
    """Columns of a table: a metric of the blurry and the restored frames, and the gain.

    Args:
        summary: of the evaluation; None, or one without finite figures, gives columns of None.
        metric: ``psnr`` (dB) or ``ssim``.
    """
    found = {} if summary is None else summary["metrics"].get(metric, {})
    return {f"{metric} {kind}": found.get(kind) for kind in KINDS}
