"""Comparison of a sweep's trainings by validation, not on the test split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from vrtspike.analysis.comparisons.quality_tables import require_distinct_names
from vrtspike.analysis.evaluation_files import chosen_on_warning
from vrtspike.analysis.run_logs import validation_of_weights
from vrtspike.config.seed_names import split_seed
from vrtspike.config.tasks import Metric, find_task
from vrtspike.io.files import atomic_write_text
from vrtspike.plotting.pages import Table, write_tables
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.errors import RunError

PLOT = "parallel_coordinates.html"
NOTE = (
    "Metrics of the last validation, with TRAIN.EARLY_STOPPING of the best one, whose weights are "
    "published; the best preset first. The test split is not read for them. "
    "To train one of these presets further or to evaluate it, name its results: "
    "snakemake --cores all results/evaluate/PRESET/summary.json"
)

MemberValues = Mapping[str, Mapping[str, Any]]
"""The values of each member of a sweep, by its name and key."""


def write_sweep(
    folders: Sequence[Path], values: MemberValues, output: Path, title: str
) -> pd.DataFrame:
    """Compare the trainings of a sweep.

    Args:
        folders: result folders of the runs (``results/train/<preset>``), with all seeds.
        values: values of each member.
        output: folder for ``table.csv``, ``table.html`` and ``parallel_coordinates.html``.
        title: name of the sweep.

    Returns:
        a row for each preset: the values, the metrics of the validation of its weights (means over
        seeds, with their standard deviation as ``spread``), steps and parameters; the best one
        first.

    Raises:
        RunError: if a run is missing.
    """
    runs = [(read_published(folder), folder) for folder in folders]
    require_distinct_names([run.name for run, _ in runs])
    metrics = find_task(runs[0][0].settings.TASK).METRICS
    rows = [
        _row(name, values[name], member_runs, metrics)
        for name, member_runs in _runs_by_member(runs, list(values), title).items()
    ]
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    shown = [metric for name, metric in metrics.items() if name in table]
    if shown:
        best_last = not shown[0].larger_is_better
        table = table.sort_values(shown[0].name, ascending=best_last, kind="stable")
    test_validations = [text for run, _ in runs if (text := run.settings.validation_on_test_key)]
    if test_validations:
        table = table.assign(note=chosen_on_warning("the test split", test_validations[0]))
    formats = {"parameters": ","}
    for metric in shown:
        formats[metric.name] = metric.format
        formats[f"{metric.name} spread"] = metric.format
    write_tables(output, f"Sweep {title}", NOTE, [Table(table, formats=formats)])
    keys = list(dict.fromkeys(key for member_values in values.values() for key in member_values))
    text = parallel_coordinates(table, keys, shown).to_html(include_plotlyjs=True)
    atomic_write_text(output / PLOT, text)
    return table


def _runs_by_member(
    runs: Sequence[tuple[PublishedRun, Path]], members: Sequence[str], title: str
) -> dict[str, list[tuple[PublishedRun, Path]]]:
    """Group runs, each with its folder, by the member of the sweep that they train.

    Raises:
        RunError: if a member has no run, or a run is of no member.
    """
    by_member: dict[str, list[tuple[PublishedRun, Path]]] = {name: [] for name in members}
    for run, folder in runs:
        member, _ = split_seed(run.name)
        if member not in by_member:
            raise RunError(
                f"{folder}: run {run.name} is no member of sweep {title}, whose members are: "
                f"{', '.join(members)}; leave the folder out"
            )
        by_member[member].append((run, folder))
    for name, member_runs in by_member.items():
        if not member_runs:
            raise RunError(f"sweep {title}: no run of {name}; train it, or give its folder")
    return by_member


def _row(
    name: str,
    values: Mapping[str, Any],
    runs: Sequence[tuple[PublishedRun, Path]],
    metrics: Mapping[str, Metric],
) -> dict[str, Any]:
    """Return the values and metrics of a member; not a number if a seed has no value."""
    row: dict[str, Any] = {"preset": name, **{key: str(value) for key, value in values.items()}}
    validations = [validation_of_weights(folder, run.settings) for run, folder in runs]
    seeds = pd.DataFrame(validations, columns=list(metrics), dtype="float64")
    for metric in metrics:
        row[metric] = seeds[metric].mean(skipna=False)
        row[f"{metric} spread"] = seeds[metric].std(skipna=False)
    first_run, _ = runs[0]
    return row | {"steps": first_run.steps, "parameters": first_run.parameters}


def parallel_coordinates(
    table: pd.DataFrame, keys: Sequence[str], metrics: Sequence[Metric]
) -> go.Figure:
    """Draw a line for each preset through its settings and metrics, coloured by the first metric.

    Args:
        table: table from :func:`write_sweep`.
        keys: the columns of values, shown as categories.
        metrics: the columns of metrics.
    """
    axes = []
    for key in keys:
        # Sort numbers by value, then texts.
        column = table[[key]].assign(number=pd.to_numeric(table[key], errors="coerce"))
        texts = column.dropna(subset=key).sort_values(["number", key])[key].unique().tolist()
        codes = pd.Categorical(table[key], texts).codes.tolist()
        ticks = {"tickvals": list(range(len(texts))), "ticktext": texts}
        axes.append({"label": key, "values": codes, **ticks})
    axes += [{"label": metric.label, "values": table[metric.name].tolist()} for metric in metrics]
    line = {}
    if metrics:
        colors = {"colorscale": "Viridis", "showscale": True}
        line = {"color": table[metrics[0].name].tolist(), **colors}
    return go.Figure(go.Parcoords(dimensions=axes, line=line))
