"""Seconds per stage from Snakemake's benchmark files, and the short table after the demo."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from vrtspike.analysis.comparisons.quality_tables import quality_formats, quality_table
from vrtspike.analysis.evaluation_files import read_summary
from vrtspike.plotting.pages import table_texts
from vrtspike.system.errors import DataError

SECONDS = "s"


def stage_seconds(files: Iterable[Path], folder: Path) -> dict[str, tuple[int, float]]:
    """Sum the jobs and seconds of each stage.

    Args:
        files: benchmarks to read, ``<stage>.tsv`` and ``<stage>/**/<job>.tsv``; the column ``s`` of
            each holds a job's seconds. Jobs that were never measured have none.
        folder: folder of all benchmarks.

    Returns:
        number of jobs and sum of their seconds by stage, in the order of their ends.

    Raises:
        DataError: if a file is not a benchmark of Snakemake.
    """
    stages: dict[str, tuple[int, float]] = {}
    existing = [path for path in files if path.is_file()]
    for path in sorted(existing, key=lambda path: path.stat().st_mtime):
        table = pd.read_csv(path, sep="\t")
        if SECONDS not in table:
            raise DataError(f"{path}: no column {SECONDS!r}; expected a benchmark of Snakemake")
        stage = path.relative_to(folder).parts[0].removesuffix(".tsv")
        # The stage is removed and added again, so that stages are in the order of their ends.
        jobs, seconds = stages.pop(stage, (0, 0.0))
        stages[stage] = (jobs + 1, seconds + float(table[SECONDS].iloc[-1]))
    return stages


def demo_summary(summaries: Iterable[Path], benchmarks: Iterable[Path], folder: Path) -> Group:
    """Build tables of the demo's metrics and of the time of each stage, for the terminal.

    Args:
        summaries: ``<preset>/summary.json`` of each evaluation, whose means and warnings are shown.
        benchmarks: files of the demo's own jobs.
        folder: folder of all benchmarks.
    """
    evaluations = {path.parent.name: read_summary(path) for path in summaries}
    values, metrics = quality_table([[summary] for summary in evaluations.values()])
    first = next(iter(metrics.values()), None)
    kinds = [] if first is None else list(first.kinds)
    means = _table("Test sequences", "metric", "preset", values=kinds)
    rows = table_texts(values, quality_formats(metrics)).to_dict("records")
    for name, metric in metrics.items():
        for preset, row in zip(evaluations, rows, strict=True):
            cells = [row[f"{name} {kind}"] for kind in metric.kinds]
            means.add_row(f"{name} {metric.unit}".strip(), preset, *cells)
    warnings = [
        Text(f"{preset}: {warning}\n")
        for preset, summary in evaluations.items()
        for warning in summary.get("warnings", ())
    ]
    seconds = _table("Seconds per stage", "stage", values=["jobs", "seconds"])
    for stage, (jobs, duration) in stage_seconds(benchmarks, folder).items():
        seconds.add_row(stage, str(jobs), f"{duration:.1f}")
    return Group(means, *warnings, seconds)


def _table(title: str, *names: str, values: Iterable[str]) -> Table:
    """Return an empty table with columns of names and right-aligned columns of values."""
    table = Table(*names, title=title, title_justify="left", box=SIMPLE_HEAD)
    for value in values:
        table.add_column(value, justify="right", no_wrap=True)
    return table
