"""Seconds per stage from Snakemake's benchmark files, and the short table after the demo."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Column, Table

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
    tables = {path.parent.name: _main_rows(path) for path in sequences}
    known = {column for table in tables.values() for column in table}
    measured = [metric for metric in metrics if set(metric.columns) <= known]
    several, kinds = len(tables) > 1, measured[0].kinds if measured else ()
    quality = Table(
        Column("metric", no_wrap=True),
        Column("preset" if several else "sequence", no_wrap=True),
        *(Column(kind, justify="right", no_wrap=True) for kind in kinds),
        title="Test sequences",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for metric, (preset, table) in itertools.product(measured, tables.items()):
        protocol = table.get("protocol", pd.Series([OWN_PROTOCOL])).iloc[0]
        title = column_name(metric.title, protocol)
        values = table.reindex(columns=list(metric.columns))
        if not several:
            for name, row in zip(table["sequence"], values.to_numpy(), strict=True):
                quality.add_row(title, name, *_quality_cells(metric, *row))
        cells = _quality_cells(metric, *values.mean())
        quality.add_row(title, preset if several else "mean", *cells, style="bold")
    seconds = Table(
        "stage",
        Column("jobs", justify="right"),
        Column("seconds", justify="right"),
        title="Seconds per stage",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for stage, (jobs, duration) in stage_seconds(benchmarks, folder).items():
        seconds.add_row(stage, str(jobs), f"{duration:.1f}")
    return Group(quality, seconds)


def _main_rows(path: Path) -> pd.DataFrame:
    """The rows of the first protocol and the first scale of a table of sequences."""
    sequences = pd.read_csv(path, dtype={"sequence": str})
    for column in {"protocol", "scale"} & set(sequences):
        sequences = sequences[sequences[column] == sequences[column].iloc[0]]
    return sequences


def _quality_cells(metric: Metric, blurry: float, restored: float) -> list[str]:
    gain = metric.gain(restored, blurry)
    return [metric.text(blurry), metric.text(restored), f"{gain:+{metric.format}}"]
