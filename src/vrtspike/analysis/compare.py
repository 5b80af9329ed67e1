"""Presets side by side: speed, memory, quality, and what differs in their configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluations import (
    Summary,
    frames_note,
    measured_metrics,
    quality,
    quality_formats,
    quality_note,
    read_evaluations,
)
from vrtspike.analysis.figures import RunFigures, run_figures
from vrtspike.analysis.plots import plot_lines
from vrtspike.config.shown import shown_settings
from vrtspike.evaluation.names import SUMMARY
from vrtspike.files import atomic_write_text
from vrtspike.flatten import flatten
from vrtspike.metrics import Metric
from vrtspike.pages import Table, write_page
from vrtspike.problems import find_problem
from vrtspike.runs.logs import RunLogs, read_run_logs
from vrtspike.runs.published import PublishedRun, read_published, require_names

TABLE = "table"
DIFFERENCES = "differences.csv"
PLOTS = ("loss.svg", "validation.svg")
ABSENT = "–"

_FORMATS = {
    "forward ms": ".1f",
    "step ms": ".1f",
    "samples/s": ".3f",
    "waits for data": ".1%",
    "memory MB": ".0f",
    "GPU peak MB": ".0f",
    "parameters": ",",
}


@dataclass(frozen=True)
class Candidate:
    """One of the compared runs.

    Attributes:
        run: who it is.
        logs: what it logged.
        figures: the same in numbers.
        evaluation: its ``summary.json``; None where it was not evaluated.
        preset: its preset, which the name in tables may not be (:func:`find_candidates`).
    """

    run: PublishedRun
    logs: RunLogs
    figures: RunFigures
    evaluation: Summary | None
    preset: str


def compare_runs(
    train_folders: Sequence[Path], evaluate_folders: Sequence[Path], output: Path
) -> pd.DataFrame:
    """Compare published runs and write everything into ``output``.

    Args:
        train_folders: result folders of the runs (``results/train/<preset>``).
        evaluate_folders: folders of evaluations (``results/evaluate/<preset>``), matched by the
            run's fingerprint; a run without one has no figures of the test split.
        output: folder for ``table.csv``, ``table.html``, ``differences.csv``, ``loss.svg`` and
            ``validation.svg``.

    Returns:
        one row per run.

    Raises:
        RunError: if a folder holds no run, or two runs have one name.
    """
    evaluations = read_evaluations(evaluate_folders)
    candidates = [_candidate(folder, evaluations) for folder in train_folders]
    require_names([candidate.run for candidate in candidates])
    return write_comparison(candidates, output)


def write_comparison(candidates: Sequence[Candidate], output: Path) -> pd.DataFrame:
    """Write what :func:`compare_runs` writes; returns its table."""
    metrics = metrics_of(candidates)
    table = comparison_table(candidates, metrics)
    differences = setting_differences([candidate.run for candidate in candidates])
    atomic_write_text(output / f"{TABLE}.csv", table.to_csv(index=False, float_format="%.6g"))
    atomic_write_text(output / DIFFERENCES, differences.to_csv(index=False))
    write_page(
        output / f"{TABLE}.html",
        "Presets compared",
        "Times are means over the steps after the first, for one micro-batch (forward) or one "
        f"optimiser step (step). {quality_note(metrics)} {evaluations_note(candidates)}".strip(),
        [
            Table(table, formats=comparison_formats(metrics)),
            Table(differences, "What differs in the configuration"),
        ],
    )
    _plot(output, candidates)
    return table


def find_candidates(train_folders: Sequence[Path]) -> list[Candidate]:
    """Runs and what was evaluated of them, found beside: ``<results>/evaluate/<preset>``.

    Runs of one name are called by their folders.

    Args:
        train_folders: result folders, ``<results>/train/<preset>``.

    Raises:
        RunError: if a folder holds no run.
    """
    candidates = []
    for folder in train_folders:
        beside = folder.absolute().parent.parent / "evaluate" / folder.absolute().name
        found = [beside] if (beside / SUMMARY).is_file() else []
        # Its own only: a copy of a run may have been evaluated in another way.
        candidates.append(_candidate(folder, read_evaluations(found)))
    names = [candidate.run.name for candidate in candidates]
    return [
        candidate if names.count(candidate.run.name) == 1 else _renamed(candidate, str(folder))
        for candidate, folder in zip(candidates, train_folders, strict=True)
    ]


def _renamed(candidate: Candidate, name: str) -> Candidate:
    identity = replace(candidate.run.identity, name=name)
    return replace(candidate, run=replace(candidate.run, identity=identity))


def metrics_of(candidates: Sequence[Candidate]) -> list[Metric]:
    """The metrics that any of the runs was evaluated by."""
    return measured_metrics(c.evaluation for c in candidates if c.evaluation is not None)


def evaluations_note(candidates: Sequence[Candidate]) -> str:
    """A warning where the runs were not evaluated on the same frames; empty where they were."""
    return frames_note({c.run.name: c.evaluation for c in candidates})


def comparison_formats(metrics: Sequence[Metric]) -> dict[str, str]:
    """Format specifications of the columns of :func:`comparison_table`."""
    return _FORMATS | quality_formats(metrics)


def comparison_table(candidates: Sequence[Candidate], metrics: Sequence[Metric]) -> pd.DataFrame:
    """One row per run: speed, memory, parameters, and these metrics of the test split."""
    rows = []
    for candidate in candidates:
        speed, memory = candidate.figures.speed, candidate.figures.memory
        row: dict[str, Any] = {
            "preset": candidate.run.name,
            "forward ms": speed.forward_ms,
            "step ms": speed.step_ms,
            "samples/s": speed.samples_per_second,
            "waits for data": speed.data_share,
            "memory MB": memory.process_mb,
            "GPU peak MB": memory.gpu_peak_mb,
            "parameters": candidate.run.parameters,
        }
        rows.append(row | quality(candidate.evaluation, metrics))
    table = pd.DataFrame(rows)
    numbers = [column for column in table.columns if column != "preset"]
    return table.astype(dict.fromkeys(numbers, float)).astype({"parameters": "Int64"})


def setting_differences(runs: Sequence[PublishedRun]) -> pd.DataFrame:
    """One row per key whose value is not the same in all runs, one column per run."""
    flat = [
        {key: str(value) for key, value in flatten(shown_settings(run.settings)).items()}
        for run in runs
    ]
    every = dict.fromkeys(key for values in flat for key in values)
    keys = [key for key in every if len({values.get(key) for values in flat}) > 1]
    columns = {"key": keys} | {
        run.name: [values.get(key, ABSENT) for key in keys]
        for run, values in zip(runs, flat, strict=True)
    }
    return pd.DataFrame(columns)


def _candidate(folder: Path, evaluations: Mapping[str, Summary]) -> Candidate:
    run, logs = read_published(folder), read_run_logs(folder)
    metrics = find_problem(run.settings.TASK).METRICS
    figures = run_figures(logs, run.settings.TRAIN.GRADIENT_ACCUMULATION_STEPS, metrics=metrics)
    return Candidate(run, logs, figures, evaluations.get(run.fingerprint), run.name)


def _validation_curves(
    candidates: Sequence[Candidate],
) -> dict[str, dict[str, tuple[pd.Series, pd.Series]]]:
    """The curves of the most important metric of each problem, by its title."""
    found: dict[str, dict[str, tuple[pd.Series, pd.Series]]] = {}
    for candidate in candidates:
        validation = candidate.logs.validation
        metric = next(iter(find_problem(candidate.run.settings.TASK).METRICS.values()))
        if metric.name in validation:
            curve = validation["step"], validation[metric.name]
            found.setdefault(f"validation {metric.label}", {})[candidate.run.name] = curve
    return found


def _plot(output: Path, candidates: Sequence[Candidate]) -> None:
    losses = {c.run.name: (c.logs.train["step"], c.logs.train["loss"]) for c in candidates}
    plot_lines(
        output / PLOTS[0],
        {"loss": losses},
        logarithmic=frozenset({"loss"}),
        missing="no training step was logged",
    )
    plot_lines(
        output / PLOTS[1],
        _validation_curves(candidates),
        missing="no validation in these runs",
    )
