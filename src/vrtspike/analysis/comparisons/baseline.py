"""Regression tests: metrics of runs against those of a baseline file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.analysis.comparisons.compare import ComparedRun
from vrtspike.analysis.comparisons.quality_tables import (
    DIGEST,
    content_entries,
    frame_entries,
    have_other_contents,
    measured_metrics,
    quality_table,
    require_distinct_names,
)
from vrtspike.analysis.evaluation_files import EvaluationSummary
from vrtspike.config.tasks import Metric
from vrtspike.io.files import read_mapping, write_json
from vrtspike.system.errors import RunError

SCHEMA = 2

ALLOWED_DROP = {"psnr": 0.05, "psnr_y": 0.05, "ssim": 0.001, "ssim_y": 0.001, "lpips": 0.002}
"""Largest allowed drop of a metric below the baseline; others: :data:`ALLOWED_DROP_SHARE`."""
ALLOWED_DROP_SHARE = 0.01
"""Largest allowed drop of other metrics, as a share of the baseline's value."""


def write_baseline(path: Path, candidates: Sequence[ComparedRun]) -> None:
    """Write the metrics of runs into a baseline; other runs in the file are kept.

    Raises:
        RunError: if the file exists and is not a baseline, two runs are of one preset, or a run was
            not evaluated.
    """
    runs = _read_baseline(path) if path.exists() else {}
    require_distinct_names([candidate.run.name for candidate in candidates])
    for candidate in candidates:
        name = candidate.run.name
        if candidate.evaluation is None:
            raise RunError(
                f"{candidate.name}: found no evaluation of these weights; run: "
                f"snakemake --cores all evaluate_{name}"
            )
        runs[name] = {
            "fingerprint": candidate.run.fingerprint,
            "test_frames": frame_entries(candidate.evaluation),
            "contents": content_entries(candidate.evaluation),
            "metrics": _means(candidate.evaluation),
        }
    write_json(path, {"schema": SCHEMA, "runs": runs})


def below_baseline(path: Path, candidates: Sequence[ComparedRun]) -> list[str]:
    """Return a line for each metric that is worse than the baseline.

    A metric that is missing, of other test frames, or of a data set with other contents counts as
    worse.

    Args:
        path: JSON file that ``vrtspike compare --write-baseline`` wrote.
        candidates: runs to compare with the baseline, one of each of its presets.

    Raises:
        RunError: if the file is not a baseline, lacks a run, or two runs are of one preset.
    """
    runs = _read_baseline(path)
    faults: list[str] = []
    for candidate in candidates:
        name = candidate.run.name
        if name not in runs:
            raise RunError(
                f"{path}: no run {name}, found: {', '.join(runs) or 'none'}; add it with "
                f"--write-baseline {path}"
            )
        faults += _frame_faults(name, candidate.evaluation, runs[name]["test_frames"])
        # Baselines of before have no contents.
        faults += _content_faults(name, candidate.evaluation, runs[name].get("contents", {}))
        faults += _metric_faults(name, candidate.evaluation, runs[name]["metrics"])
    return faults


def _frame_faults(
    name: str, evaluation: EvaluationSummary | None, baseline_frames: Mapping[str, Any]
) -> list[str]:
    """Return lines for differences between the test frames of a run and those of the baseline."""
    if evaluation is None:
        return []
    return [
        f"{name}: evaluated on other frames than the baseline ({key}: {value}, the "
        f"baseline's {baseline_frames.get(key)}); its metrics cannot be compared"
        for key, value in frame_entries(evaluation).items()
        if value != baseline_frames.get(key)
    ]


def _content_faults(
    name: str, evaluation: EvaluationSummary | None, baseline_contents: Mapping[str, Any]
) -> list[str]:
    """Return a line if the data set of a run has other contents than that of the baseline."""
    if evaluation is None:
        return []
    contents = content_entries(evaluation)
    if not have_other_contents(contents, baseline_contents):
        return []
    return [
        f"{name}: data set {evaluation['dataset']} has other contents than that of the baseline "
        f"({DIGEST}: {contents[DIGEST]}, the baseline's {baseline_contents[DIGEST]}), so may the "
        "frames; its metrics cannot be compared"
    ]


def _metric_faults(
    name: str, evaluation: EvaluationSummary | None, baseline_values: Mapping[str, float]
) -> list[str]:
    """Return lines for metrics of a run that are worse than in the baseline."""
    means = {} if evaluation is None else _means(evaluation)
    metrics = {} if evaluation is None else _metrics_by_column(evaluation)
    faults = []
    for column, baseline in baseline_values.items():
        if column not in means:
            fault = f"no longer measured, the baseline is {baseline:g}"
        else:
            fault = _drop(metrics[column], means[column], baseline)
        if fault:
            faults.append(f"{name}: {column}: {fault}")
    return faults


def _drop(metric: Metric, value: float, baseline: float) -> str:
    """Describe the loss of a metric against the baseline; empty if the loss is allowed.

    >>> _drop(Metric("ssim_y", "SSIM (Y)", "..."), 0.945, 0.95)
    '0.945, the baseline is 0.95: worse by 0.005, 0.001 is allowed'
    """
    loss = metric.gain(baseline, value)
    allowed = ALLOWED_DROP.get(metric.name, ALLOWED_DROP_SHARE * abs(baseline))
    if loss <= allowed:
        return ""
    return (
        f"{value:.6g}, the baseline is {baseline:.6g}: worse by {loss:.3g}, "
        f"{allowed:.3g} is allowed"
    )


def _metrics_by_column(evaluation: EvaluationSummary) -> dict[str, Metric]:
    """Return the metrics of an evaluation by the column of their result, ``psnr restored``."""
    metrics = measured_metrics([evaluation])
    return {f"{name} {metric.result_name}": metric for name, metric in metrics.items()}


def _means(evaluation: EvaluationSummary) -> dict[str, float]:
    """Return the finite means of an evaluation's results, by column."""
    table, _ = quality_table([[evaluation]])
    means = table[list(_metrics_by_column(evaluation))].iloc[0].dropna()
    return {str(column): float(mean) for column, mean in means.items()}


def _read_baseline(path: Path) -> dict[str, Any]:
    """Read the runs of a baseline, by name."""
    if not path.is_file():
        raise RunError(f"{path}: no such file; write it with --write-baseline {path}")
    baseline = read_mapping(path, "give another file")
    runs = baseline.get("runs")
    if not isinstance(runs, dict) or baseline.get("schema") != SCHEMA:
        raise RunError(f"{path}: no baseline of this version; write it again, or give another file")
    return runs
