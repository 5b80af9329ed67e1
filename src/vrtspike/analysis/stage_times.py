"""Seconds per stage from Snakemake's benchmark files, and the short table after the demo."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from vrtspike.errors import DataError
from vrtspike.metrics import Metric

SECONDS = "s"


def stage_seconds(files: Iterable[Path], folder: Path) -> dict[str, tuple[int, float]]:
    """Jobs and seconds of each stage.

    Args:
        files: benchmarks to read, ``<stage>.tsv`` and ``<stage>/**/<job>.tsv``; the column ``s`` of
            each holds a job's seconds. Jobs that were never measured have none.
        folder: of all benchmarks.

    Returns:
        by stage the number of jobs and their seconds added up (jobs may have run side by side),
        in the order in which the stages were finished.

    Raises:
        DataError: if a file is not a benchmark of Snakemake.
    """
    found: dict[str, tuple[int, float]] = {}
    known = (path for path in files if path.is_file())
    for path in sorted(known, key=lambda path: path.stat().st_mtime):
        table = pd.read_csv(path, sep="\t")
        if SECONDS not in table:
            raise DataError(f"{path}: no column {SECONDS!r}; expected a benchmark of Snakemake")
        stage = path.relative_to(folder).parts[0].removesuffix(".tsv")
        jobs, seconds = found.pop(stage, (0, 0.0))
        found[stage] = (jobs + 1, seconds + float(table[SECONDS].iloc[-1]))
    return found


def demo_summary(
    sequences: Path, benchmarks: Iterable[Path], folder: Path, metrics: Iterable[Metric]
) -> Group:
    """What the demo reached and how long each stage took, for the terminal.

    Args:
        sequences: ``sequences.csv`` of the evaluation.
        benchmarks: files of the demo's own jobs.
        folder: of all benchmarks.
        metrics: of the problem.
    """
    return Group(
        _quality(pd.read_csv(sequences, dtype={"sequence": str}), metrics),
        _seconds(stage_seconds(benchmarks, folder)),
    )


def _quality(sequences: pd.DataFrame, metrics: Iterable[Metric]) -> Table:
    table = Table(title="Test sequences", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("metric", no_wrap=True)
    table.add_column("sequence", no_wrap=True)
    measured = [metric for metric in metrics if set(metric.columns) <= set(sequences)]
    for header in measured[0].kinds if measured else ():
        table.add_column(header, justify="right", no_wrap=True)
    scales = sequences.get("scale", pd.Series(1.0, sequences.index))
    scaled = zip(sequences["sequence"], scales, strict=True)
    names = [f"{sequence}{_at(scale)}" for sequence, scale in scaled]
    for metric in measured:
        values = sequences[list(metric.columns)]
        for name, row in zip(names, values.to_numpy(), strict=True):
            table.add_row(metric.title, name, *_quality_cells(metric, *row))
        for scale, mean in values.groupby(scales, sort=False).mean().iterrows():
            name = f"mean{_at(scale)}"
            table.add_row(metric.title, name, *_quality_cells(metric, *mean), style="bold")
    return table


def _at(scale: Any) -> str:  # noqa: ANN401 - any number of pandas
    return "" if scale == 1 else f", scale {scale:g}"


def _quality_cells(metric: Metric, blurry: float, restored: float) -> list[str]:
    gain = metric.gain(restored, blurry)
    return [metric.text(blurry), metric.text(restored), f"{gain:+{metric.format}}"]


def _seconds(stages: dict[str, tuple[int, float]]) -> Table:
    table = Table(title="Seconds per stage", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("stage")
    table.add_column("jobs", justify="right")
    table.add_column("seconds", justify="right")
    for stage, (jobs, seconds) in stages.items():
        table.add_row(stage, str(jobs), f"{seconds:.1f}")
    return table
