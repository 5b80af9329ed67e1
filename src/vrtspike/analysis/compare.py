"""Comparison of runs: speed, memory, quality, and differences of their settings.

Regression tests compare the figures of runs with those of a baseline file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    NOT_COUNTED,
    NOT_COUNTED_NOTE,
    Summary,
    find_evaluation,
    reasons_not_to_count,
)
from vrtspike.analysis.evaluations import (
    OWN_PROTOCOL,
    Measured,
    frames_note,
    quality_formats,
    quality_note,
    quality_table,
    require_names,
    test_frames,
)
from vrtspike.analysis.performance import Analysis, read_analysis
from vrtspike.config.problems import Metric, all_metrics
from vrtspike.config.run_schema import shown_settings
from vrtspike.io.files import atomic_write_text, read_mapping, write_json
from vrtspike.io.flatten import unequal
from vrtspike.plotting.pages import NOTE, Table, markdown_table, texts, write_page
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

Format = Literal["text", "csv", "markdown"]

FORMATS = {
    "forward ms": ".1f",
    "step ms": ".1f",
    "samples/s": ".3f",
    "waits for data": ".1%",
    "memory MB": ".0f",
    "GPU peak MB": ".0f",
    "parameters": ",",
}
"""Of the columns of :func:`comparison_table`, besides those of metrics."""


@dataclass(frozen=True)
class Candidate:
    """One of the compared runs.

    Attributes:
        analysis: of the run.
        evaluation: its ``summary.json``; None if it was not evaluated.
        name: of the run; its folder where two have one name.
    """

    analysis: Analysis
    evaluation: Summary | None
    name: str

    @property
    def run(self) -> PublishedRun:
        """Its identity."""
        return self.analysis.run


def write_comparison(candidates: Sequence[Candidate], output: Path) -> pd.DataFrame:
    """Write the tables of a comparison into a folder.

    Args:
        candidates: the runs; those without evaluation have no metrics.
        output: folder for ``table.csv``, ``table.html`` and ``differences.csv``.

    Returns:
        one row per run.

    Raises:
        RunError: if two runs have one name.
    """
    require_names([candidate.name for candidate in candidates])
    table, metrics = comparison_table(candidates)
    differences = setting_differences(candidates)
    atomic_write_text(output / "differences.csv", differences.to_csv(index=False))
    atomic_write_text(output / "table.csv", table.to_csv(index=False, float_format="%.6g"))
    counted = [_counts(candidate) for candidate in candidates]
    tables = _page_tables(table, metrics, pd.Series(counted, index=table.index))
    write_page(
        output / "table.html",
        "Presets compared",
        "Times are means over the steps after the first, for one micro-batch (forward) or one "
        f"optimiser step (step). {_note(candidates, metrics)}".strip(),
        [*tables, Table(differences, "Differences of the configurations")],
    )
    return table


MAX_METRICS = 2
"""Metrics of a table on the page; more columns would not fit a window."""


def _page_tables(table: pd.DataFrame, metrics: Measured, counted: pd.Series) -> list[Table]:
    """The tables of the page: runs that count, then those that do not, a few columns each.

    Args:
        table: of :func:`comparison_table`.
        metrics: of its columns.
        counted: for each row, whether its figures are a test of the model.
    """
    formats = FORMATS | quality_formats(metrics)
    tables = [
        *(Table(part, formats=formats) for part in _quality_parts(table[counted], metrics)),
        Table(_costs(table[counted]), "Speed and memory", formats=formats),
    ]
    if not counted.all():
        first, *others = [*_quality_parts(table[~counted], metrics), _costs(table[~counted])]
        tables.append(Table(first, NOT_COUNTED, NOT_COUNTED_NOTE, formats=formats))
        tables += [Table(part, formats=formats) for part in others]
    return [each for each in tables if len(each.frame)]


def _costs(rows: pd.DataFrame) -> pd.DataFrame:
    """The names, and the columns of speed, memory and parameters."""
    return rows[[rows.columns[0], *(name for name in rows if name in FORMATS)]]


def _quality_parts(rows: pd.DataFrame, metrics: Measured) -> list[pd.DataFrame]:
    """The columns of a few metrics at a time, each with the names; none without rows."""
    if rows.empty:
        return []
    names = list(metrics)
    parts = []
    for start in range(0, len(names), MAX_METRICS):
        chosen = names[start : start + MAX_METRICS]
        columns = [column for column in rows if _metric_of(str(column), names) in chosen]
        parts.append(rows[[rows.columns[0], *columns]])
    return parts


def _metric_of(column: str, names: Sequence[str]) -> str | None:
    """The metric of a column such as ``psnr (vrt) gain``; None for other columns."""
    fitting = [name for name in names if column.startswith(f"{name} ")]
    # A name may begin another one: psnr, psnr (vrt).
    return max(fitting, key=len, default=None)


def _counts(candidate: Candidate) -> bool:
    """Whether the figures of a run are a test of its model; True without figures."""
    return candidate.evaluation is None or not reasons_not_to_count(candidate.evaluation)


def find_candidates(folders: Sequence[Path]) -> list[Candidate]:
    """Runs and their evaluations (``<results>/evaluate/<preset>``).

    Args:
        folders: result folders (``<results>/train/<preset>``) or run folders.

    Raises:
        RunError: if a folder holds no run.
    """
    analyses = [read_analysis(folder) for folder in folders]
    names = [analysis.run.name for analysis in analyses]
    return [
        Candidate(
            each, find_evaluation(folder, each.run), name if names.count(name) == 1 else str(folder)
        )
        for folder, each, name in zip(folders, analyses, names, strict=True)
    ]


def _note(candidates: Sequence[Candidate], metrics: Measured) -> str:
    """Explanation of the metrics, with a warning if the runs have different test frames."""
    return f"{quality_note(metrics)} {frames_note({c.name: c.evaluation for c in candidates})}"


def comparison_table(candidates: Sequence[Candidate]) -> tuple[pd.DataFrame, Measured]:
    """One row per run: the metrics of the test split, speed, memory, and parameters."""
    rows = []
    for candidate in candidates:
        speed, memory = candidate.analysis.figures.speed, candidate.analysis.figures.memory
        row: dict[str, Any] = {
            "preset": candidate.name,
            "forward ms": speed.forward_ms,
            "step ms": speed.step_ms,
            "samples/s": speed.samples_per_second,
            "waits for data": speed.data_share,
            "memory MB": memory.process_mb,
            "GPU peak MB": memory.gpu_peak_mb,
            "parameters": candidate.run.parameters,
        }
        rows.append(row)
    evaluations = [[] if c.evaluation is None else [c.evaluation] for c in candidates]
    quality, metrics = quality_table(evaluations)
    costs = pd.DataFrame(rows).astype({"parameters": "Int64"})
    names = costs.pop("preset")
    notes = quality.pop(NOTE) if NOTE in quality else None
    # Quality comes first, so that it is seen on a small screen.
    return pd.concat([names, quality, costs, notes], axis=1), metrics


def setting_differences(candidates: Sequence[Candidate]) -> pd.DataFrame:
    """One row per key with different values, one column per run."""
    settings = (shown_settings(candidate.run.settings) for candidate in candidates)
    found = unequal(*settings, text=str)
    rows = [(key, *values) for key, values in found.items()]
    return pd.DataFrame(rows, columns=["key", *(candidate.name for candidate in candidates)])


def comparison_text(candidates: Sequence[Candidate], kind: Format) -> str:
    """A comparison of runs as text.

    Args:
        candidates: the runs.
        kind: ``csv`` has a row for each run; the others have a column for each run, and below a
            table of different settings.
    """
    table, metrics = comparison_table(candidates)
    if kind == "csv":
        return table.to_csv(index=False, float_format="%.6g")
    # A row for each figure that any run has, a column for each run; notes stand below.
    filled = table.dropna(axis=1, how="all").drop(columns=NOTE, errors="ignore")
    shown = texts(filled, FORMATS | quality_formats(metrics))
    apart = [not _counts(candidate) for candidate in candidates]
    shown.loc[apart, "preset"] += " (not counted)"
    shown = pd.concat([shown[[not each for each in apart]], shown[apart]])
    rows = shown.set_index("preset").T.rename_axis("figure").reset_index()
    differences = setting_differences(candidates)
    draw: Callable[[pd.DataFrame], str] = markdown_table if kind == "markdown" else _aligned
    parts = [draw(rows)]
    if len(candidates) > 1:
        same = "The settings of all runs are the same.\n"
        parts.append(same if differences.empty else draw(differences.astype(str)))
    if metrics:
        parts.append(f"{_note(candidates, metrics).strip()}\n")
    return "\n".join(parts)


def _aligned(rows: pd.DataFrame) -> str:
    """A text table; the first column is left-aligned, the others right-aligned."""
    first = str(rows.columns[0])
    return rows.set_index(first).rename_axis(index=None, columns=first).to_string() + "\n"


SCHEMA = 1

ALLOWED = {"psnr": 0.05, "psnr_y": 0.05, "ssim": 0.001, "ssim_y": 0.001, "lpips": 0.002}
"""By how much a metric may be worse than the baseline; others by :data:`ALLOWED_SHARE`."""
ALLOWED_SHARE = 0.01


def write_baseline(path: Path, candidates: Sequence[Candidate]) -> None:
    """Write the metrics of these runs; other runs in the file are kept.

    Raises:
        RunError: if the file exists and is no baseline, two runs are of one preset, or a run was
            not evaluated.
    """
    runs = _read(path) if path.exists() else {}
    require_names([candidate.run.name for candidate in candidates])
    for candidate in candidates:
        if candidate.evaluation is None:
            raise RunError(
                f"{candidate.name}: found no evaluation of these weights; run: "
                f"snakemake evaluate_{candidate.run.name}"
            )
        runs[candidate.run.name] = {
            "fingerprint": candidate.run.fingerprint,
            "test_frames": test_frames(candidate.evaluation),
            "figures": _results(candidate.evaluation),
        }
    write_json(path, {"schema": SCHEMA, "runs": runs})


def below_baseline(path: Path, candidates: Sequence[Candidate]) -> list[str]:
    """A line for each metric that is worse than the baseline.

    A metric that is missing, or of other test frames, counts as worse. Speed and memory
    (:data:`FORMATS`), which baselines of earlier versions have, are not compared.

    Args:
        path: the baseline.
        candidates: the runs.

    Raises:
        RunError: if the file is no baseline, lacks a run, or two runs are of one preset.
    """
    runs, found = _read(path), []
    measured = {f"{metric.name} {metric.after}": metric for metric in all_metrics().values()}
    for candidate in candidates:
        name, evaluation = candidate.run.name, candidate.evaluation
        if name not in runs:
            raise RunError(
                f"{path}: no run {name}, found: {', '.join(runs) or 'none'}; add it with "
                f"--write-baseline {path}"
            )
        kept = runs[name]
        if evaluation is not None and kept.get("test_frames") is not None:
            frames = {"protocol": OWN_PROTOCOL, **kept["test_frames"]}
            found += [
                f"{name}: evaluated on other frames than the baseline ({key}: {value}, the "
                f"baseline's {frames.get(key)}); its figures cannot be compared"
                for key, value in test_frames(evaluation).items()
                if value != frames.get(key)
            ]
        results = {} if evaluation is None else _results(evaluation)
        for figure, stored in kept["figures"].items():
            # Without the protocol, which stands in brackets: psnr (vrt) restored.
            metric = measured.get(re.sub(r" \(\w+\)", "", figure))
            fault = _worse(metric, results.get(figure), stored)
            found += [f"{name}: {figure}: {fault}"] if fault and figure not in FORMATS else []
    return found


def _worse(metric: Metric | None, value: float | None, stored: float) -> str | None:
    """By how much a figure is worse than the baseline's; None if that is allowed.

    >>> _worse(all_metrics()["ssim_y"], 0.945, 0.95)
    '0.945, the baseline is 0.95: worse by 0.005, 0.001 is allowed'
    """
    if metric is None or value is None:
        return f"no longer measured, the baseline is {stored:g}"
    worse = metric.gain(stored, value)
    allowed = ALLOWED.get(metric.name, ALLOWED_SHARE * abs(stored))
    if worse <= allowed:
        return None
    return (
        f"{value:.6g}, the baseline is {stored:.6g}: worse by {worse:.3g}, {allowed:.3g} is allowed"
    )


def _results(evaluation: Summary) -> dict[str, float]:
    """The finite means of an evaluation's results, by the names of their columns."""
    table, metrics = quality_table([[evaluation]])
    names = [f"{name} {metric.after}" for name, metric in metrics.items()]
    return {str(name): float(mean) for name, mean in table[names].iloc[0].dropna().items()}


def _read(path: Path) -> dict[str, Any]:
    """The runs of a baseline, by name."""
    if not path.is_file():
        raise RunError(f"{path}: no such file; write it with --write-baseline {path}")
    found = read_mapping(path, "give another file")
    runs = found.get("runs")
    if not isinstance(runs, dict) or found.get("schema") != SCHEMA:
        raise RunError(f"{path}: no baseline of runs; give another file")
    return runs
