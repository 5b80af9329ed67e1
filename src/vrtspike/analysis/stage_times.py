"""Seconds per stage from Snakemake's benchmark files, and the short table after the demo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from vrtspike.analysis.evaluations import OWN_PROTOCOL, column_name
from vrtspike.config.problems import Metric
from vrtspike.errors import DataError

SECONDS = "s"


def stage_seconds(files: Iterable[Path], folder: Path) -> dict[str, tuple[int, float]]:
    """Jobs and seconds of each stage.

    Args:
        files: benchmarks to read, ``<stage>.tsv`` and ``<stage>/**/<job>.tsv``; the column ``s`` of
            each holds a job's seconds. Jobs that were never measured have none.
        folder: of all benchmarks.

    Returns:
        number of jobs and sum of their seconds by stage, in the order of their ends.

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
    sequences: Sequence[Path], benchmarks: Iterable[Path], folder: Path, metrics: Iterable[Metric]
) -> Group:
    """Tables of the demo's metrics and of the time of each stage, for the terminal.

    Args:
        sequences: ``<preset>/sequences.csv`` of each evaluation; of several only the means are
            shown, side by side.
        benchmarks: files of the demo's own jobs.
        folder: of all benchmarks.
        metrics: of the problem.
    """
    tables = {path.parent.name: pd.read_csv(path, dtype={"sequence": str}) for path in sequences}
    return Group(
        _quality(tables, list(metrics)),
        _seconds(stage_seconds(benchmarks, folder)),
    )


def _quality(tables: Mapping[str, pd.DataFrame], metrics: Sequence[Metric]) -> Table:
    table = Table(title="Test sequences", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("metric", no_wrap=True)
    table.add_column("sequence" if len(tables) == 1 else "preset", no_wrap=True)
    tables = {preset: _main_rows(sequences) for preset, sequences in tables.items()}
    known = {column for sequences in tables.values() for column in sequences}
    measured = [metric for metric in metrics if set(metric.columns) <= known]
    for header in measured[0].kinds if measured else ():
        table.add_column(header, justify="right", no_wrap=True)
    for metric in measured:
        for preset, sequences in tables.items():
            _add_rows(table, metric, sequences, "" if len(tables) == 1 else preset)
    return table


def _main_rows(sequences: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first protocol and the first scale."""
    for column in {"protocol", "scale"} & set(sequences):
        sequences = sequences[sequences[column] == sequences[column].iloc[0]]
    return sequences


def _add_rows(table: Table, metric: Metric, sequences: pd.DataFrame, preset: str) -> None:
    """Rows for all sequences and their mean; with several presets only the mean."""
    protocol = sequences.get("protocol", pd.Series([OWN_PROTOCOL])).iloc[0]
    title = column_name(metric.title, protocol)
    values = sequences.reindex(columns=list(metric.columns))
    if not preset:
        for name, row in zip(sequences["sequence"], values.to_numpy(), strict=True):
            table.add_row(title, name, *_quality_cells(metric, *row))
    cells = _quality_cells(metric, *values.mean())
    table.add_row(title, preset or "mean", *cells, style="bold")


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
