"""Comparison of runs: speed, memory, quality, and differences of their settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    MetricColumns,
    frames_note,
    quality_formats,
    quality_note,
    quality_table,
    require_distinct_names,
)
from vrtspike.analysis.evaluation_files import (
    NOT_COUNTED,
    NOT_COUNTED_NOTE,
    EvaluationSummary,
    find_evaluation,
    reasons_not_to_count,
)
from vrtspike.analysis.performance import RunAnalysis, analyze_run
from vrtspike.config.fields import shown_tree
from vrtspike.io.files import atomic_write_text
from vrtspike.io.flatten import differing_values
from vrtspike.plotting.markdown_tables import markdown_table
from vrtspike.plotting.pages import NOTE, Table, table_texts, write_page
from vrtspike.runs.published import PublishedRun

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
"""Formats of the columns of :func:`comparison_table` that are not metrics."""
MAX_METRICS = 2
"""Metrics of a table on the page; more columns would not fit a window."""


@dataclass(frozen=True)
class ComparedRun:
    """A run in a comparison.

    Attributes:
        analysis: analysis of the run.
        evaluation: contents of its ``summary.json``; None if it was not evaluated.
        name: name of the run; its folder if two runs have the same name.
    """

    analysis: RunAnalysis
    evaluation: EvaluationSummary | None
    name: str

    @property
    def run(self) -> PublishedRun:
        """The identity of the run."""
        return self.analysis.run


def write_comparison(candidates: Sequence[ComparedRun], output: Path) -> pd.DataFrame:
    """Write the tables of a comparison into a folder.

    Args:
        candidates: the runs; those without evaluation have no metrics.
        output: folder for ``table.csv``, ``table.html`` and ``differences.csv``.

    Returns:
        one row per run.

    Raises:
        RunError: if two runs have one name.
    """
    require_distinct_names([candidate.name for candidate in candidates])
    table, metrics = comparison_table(candidates)
    differences = setting_differences(candidates)
    atomic_write_text(output / "differences.csv", differences.to_csv(index=False))
    atomic_write_text(output / "table.csv", table.to_csv(index=False, float_format="%.6g"))
    counts = [_is_test(candidate) for candidate in candidates]
    tables = _page_tables(table, metrics, pd.Series(counts, index=table.index))
    write_page(
        output / "table.html",
        "Presets compared",
        "Times are means over steps, without the first of each start, for one micro-batch "
        f"(forward) or one optimiser step (step). {_note(candidates, metrics)}".strip(),
        [*tables, Table(differences, "Differences of the configurations")],
    )
    return table


def _page_tables(table: pd.DataFrame, metrics: MetricColumns, counts: pd.Series) -> list[Table]:
    """Return the tables of the page: runs that count, then those that do not, a few columns each.

    Args:
        table: result of :func:`comparison_table`.
        metrics: metrics of its columns.
        counts: for each row, True if its values are a test of the model.
    """
    formats = FORMATS | quality_formats(metrics)
    counted = table[counts]
    tables = [Table(part, formats=formats) for part in _quality_parts(counted, metrics)]
    tables.append(Table(_costs(counted), "Speed and memory", formats=formats))
    if not counts.all():
        others = table[~counts]
        first, *rest = [*_quality_parts(others, metrics), _costs(others)]
        tables.append(Table(first, NOT_COUNTED, NOT_COUNTED_NOTE, formats=formats))
        tables += [Table(part, formats=formats) for part in rest]
    return [part for part in tables if len(part.frame)]


def _costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of names, speed, memory and parameters."""
    costs = [column for column in rows if column in FORMATS]
    return rows[[rows.columns[0], *costs]]


def _quality_parts(rows: pd.DataFrame, metrics: MetricColumns) -> list[pd.DataFrame]:
    """Split the columns of metrics into tables, each with the names; none without rows."""
    if rows.empty:
        return []
    names = list(metrics)
    parts = []
    for start in range(0, len(names), MAX_METRICS):
        chosen = {name: metrics[name] for name in names[start : start + MAX_METRICS]}
        columns = [column for column in quality_formats(chosen) if column in rows]
        parts.append(rows[[rows.columns[0], *columns]])
    return parts


def _is_test(candidate: ComparedRun) -> bool:
    """Return whether the values of a run are a test of its model; true without values."""
    if candidate.evaluation is None:
        return True
    return not reasons_not_to_count(candidate.evaluation)


def find_candidates(folders: Sequence[Path]) -> list[ComparedRun]:
    """Read runs and their evaluations (``<results>/evaluate/<preset>``).

    Args:
        folders: result folders (``<results>/train/<preset>``) or run folders.

    Raises:
        RunError: if a folder holds no run.
    """
    analyses = [analyze_run(folder) for folder in folders]
    names = [analysis.run.name for analysis in analyses]
    candidates = []
    for folder, analysis in zip(folders, analyses, strict=True):
        run = analysis.run
        name = run.name if names.count(run.name) == 1 else str(folder)
        candidates.append(ComparedRun(analysis, find_evaluation(folder, run), name))
    return candidates


def _note(candidates: Sequence[ComparedRun], metrics: MetricColumns) -> str:
    """Explain the metrics, with a warning if the runs have different test frames."""
    evaluations = {candidate.name: candidate.evaluation for candidate in candidates}
    return f"{quality_note(metrics)} {frames_note(evaluations)}"


def comparison_table(candidates: Sequence[ComparedRun]) -> tuple[pd.DataFrame, MetricColumns]:
    """Return one row per run: the metrics of the test split, speed, memory, and parameters."""
    rows = []
    for candidate in candidates:
        speed = candidate.analysis.measurements.speed
        memory = candidate.analysis.measurements.memory
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
    # Quality comes first, so that it is visible on a small screen.
    return pd.concat([names, quality, costs, notes], axis=1), metrics


def setting_differences(candidates: Sequence[ComparedRun]) -> pd.DataFrame:
    """Return one row per key with different values, one column per run."""
    settings = [shown_tree(candidate.run.settings) for candidate in candidates]
    differences = differing_values(*settings, text=str)
    rows = [(key, *values) for key, values in differences.items()]
    names = [candidate.name for candidate in candidates]
    return pd.DataFrame(rows, columns=["key", *names])


def comparison_of_runs_text(candidates: Sequence[ComparedRun], kind: Format) -> str:
    """Format a comparison of runs as text.

    Args:
        candidates: runs to compare, in the order of the table.
        kind: ``csv`` has a row for each run. The others have a column for each run, and a table of
            different settings below.
    """
    table, metrics = comparison_table(candidates)
    if kind == "csv":
        return table.to_csv(index=False, float_format="%.6g")
    draw: Callable[[pd.DataFrame], str] = markdown_table if kind == "markdown" else _aligned
    parts = [draw(_transposed(table, metrics, [_is_test(candidate) for candidate in candidates]))]
    if len(candidates) > 1:
        differences = setting_differences(candidates)
        if differences.empty:
            parts.append("The settings of all runs are the same.\n")
        else:
            parts.append(draw(differences.astype(str)))
    if metrics:
        parts.append(f"{_note(candidates, metrics).strip()}\n")
    return "\n".join(parts)


def _transposed(
    table: pd.DataFrame, metrics: MetricColumns, counts: Sequence[bool]
) -> pd.DataFrame:
    """Return a row for each value that any run has, a column for each run; runs that count first.

    Args:
        table: result of :func:`comparison_table`.
        metrics: metrics of its columns.
        counts: for each run, True if its values are a test of the model.
    """
    filled = table.dropna(axis=1, how="all").drop(columns=NOTE, errors="ignore")
    cells = table_texts(filled, FORMATS | quality_formats(metrics))
    is_counted = pd.Series(counts, index=cells.index)
    cells.loc[~is_counted, "preset"] += " (not counted)"
    cells = pd.concat([cells[is_counted], cells[~is_counted]])
    return cells.set_index("preset").T.rename_axis("measurement").reset_index()


def _aligned(rows: pd.DataFrame) -> str:
    """Format a text table; the first column is left-aligned, the others right-aligned."""
    first = str(rows.columns[0])
    return rows.set_index(first).rename_axis(index=None, columns=first).to_string() + "\n"
