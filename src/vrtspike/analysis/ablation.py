"""Presets with spikes, without them, and with shuffled ones: what the spikes are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluations import (
    Summary,
    measured_metrics,
    quality,
    quality_formats,
    quality_note,
    read_evaluations,
)
from vrtspike.config.ablation import DERIVED, SPIKES, derive, derived_names, split_name
from vrtspike.config.schema import deblurring_settings
from vrtspike.errors import RunError
from vrtspike.files import atomic_write_text
from vrtspike.flatten import flat_settings
from vrtspike.metrics import Metric
from vrtspike.pages import Table, write_page
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published, require_names

TABLE = "table"

Ablation = Sequence[PublishedRun]
"""The runs of an ablation: with spikes, then in the order of ``DERIVED``."""

_LABELS = (SPIKES, *(variant.label for variant in DERIVED))
_TEXTS = ("preset", "model")
_EVALUATED = ("dataset_digest", "split", "scale", "tile")
"""What the evaluations of an ablation have in common."""

_NOTE = (
    "The three models of a preset have the same data, seed and settings. 'Without spikes' is the "
    "backbone alone. With 'shuffled spikes' every frame gets the spikes of another frame of its "
    "clip: as many parameters and the same spikes, but nothing tells which belong to which frame. "
    "'difference' is by how much a model is better than that with spikes."
)


def compare_spikes(
    train_folders: Sequence[Path], evaluate_folders: Sequence[Path], output: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Set the models of each ablation against each other and write the table into ``output``.

    Args:
        train_folders: result folders of the runs (``results/train/<preset>``): of each preset that
            one, and those of its derived presets (:data:`~vrtspike.config.ablation.DERIVED`).
        evaluate_folders: folders of their evaluations, matched by the run's fingerprint.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        three rows per preset, and a sentence on each.

    Raises:
        RunError: if a run or its evaluation is missing, two runs have one name, or the runs of a
            preset differ in more than their spikes.
        ConfigError: if a preset has no spikes.
    """
    evaluations = read_evaluations(evaluate_folders)
    ablations = list(_group([read_published(folder) for folder in train_folders]))
    for runs in ablations:
        _require_equal_training(runs)
        _require_equal_evaluation(runs, evaluations)
    metrics = measured_metrics(evaluations[run.fingerprint] for runs in ablations for run in runs)
    table = ablation_table(ablations, evaluations, metrics)
    parts = table.groupby("preset", sort=False)
    sentences = [_sentence(str(name), part, metrics[0]) for name, part in parts]
    atomic_write_text(output / f"{TABLE}.csv", table.to_csv(index=False, float_format="%.6f"))
    first = frozenset(range(0, len(table), len(_LABELS)))
    page = Table(table, formats=_formats(metrics), strong_rows=first)
    note = f"{_NOTE} {quality_note(metrics)}"
    write_page(output / f"{TABLE}.html", "What the spikes are worth", note, [page], sentences)
    return table, sentences


def ablation_table(
    ablations: Sequence[Ablation], evaluations: Mapping[str, Summary], metrics: Sequence[Metric]
) -> pd.DataFrame:
    """The metrics of every model, and by how much each is better than that with spikes.

    Args:
        ablations: runs that belong together, that with spikes first.
        evaluations: by fingerprint.
        metrics: the columns.
    """
    rows = []
    for runs in ablations:
        for run, label in zip(runs, _LABELS, strict=True):
            row: dict[str, Any] = {"preset": runs[0].name, "model": label}
            with_spikes, this = (
                evaluations[each.fingerprint]["metrics"] for each in (runs[0], run)
            )
            for metric in metrics:
                row |= quality(evaluations[run.fingerprint], [metric])
                row[f"{metric.name} difference"] = _difference(metric, this, with_spikes)
            rows.append(row | {"steps": run.steps, "parameters": run.parameters})
    table = pd.DataFrame(rows)
    figures = dict.fromkeys([name for name in table if name not in _TEXTS], "float64")
    return table.astype(figures | {"steps": "Int64", "parameters": "Int64"})


def _difference(
    metric: Metric, found: Mapping[str, Any], reference: Mapping[str, Any]
) -> float | None:
    """By how much the restored frames of one evaluation are better than those of another."""
    values = [each.get(metric.name, {}).get("restored") for each in (found, reference)]
    return None if None in values else metric.gain(*values)


def _formats(metrics: Sequence[Metric]) -> dict[str, str]:
    differences = {f"{metric.name} difference": f"+{metric.format}" for metric in metrics}
    return quality_formats(metrics) | differences | {"steps": ",", "parameters": ","}


def _group(runs: Sequence[PublishedRun]) -> Iterator[Ablation]:
    require_names(runs)
    by_name = {run.name: run for run in runs}
    derived = {name for preset in by_name for name in derived_names(preset)}
    for preset, run in by_name.items():
        if preset in derived:
            continue
        if not by_name.keys() >= set(derived_names(preset)):
            base, _ = split_name(preset)
            missing = [name for name in (base, *derived_names(base)) if name not in by_name]
            raise RunError(
                f"the ablation of {base} needs the run {missing[0]}; found: {', '.join(by_name)}. "
                "Train it, or give its folder as well"
            )
        yield [run, *(by_name[name] for name in derived_names(preset))]


def _require_equal_training(runs: Ablation) -> None:
    """Refuse runs that differ in more than their spikes."""
    reference, *others = runs
    for run, variant in zip(others, DERIVED, strict=True):
        expected = derive(reference.name, deblurring_settings(reference.settings), variant)
        pairs = _unequal(result_settings(run.settings), result_settings(expected))
        pairs |= _unequal({"data set": run.dataset_digest}, {"data set": reference.dataset_digest})
        for key, (found, wanted) in pairs.items():
            raise RunError(
                f"run {run.name} has {key} {found}, expected {wanted}, for it shall differ from "
                f"run {reference.name} in {variant.override} only; train both again"
            )


def _require_equal_evaluation(runs: Ablation, evaluations: Mapping[str, Summary]) -> None:
    """Refuse runs that were not evaluated, or not in the same way."""
    for run in runs:
        if run.fingerprint not in evaluations:
            raise RunError(
                f"run {run.name} ({run.fingerprint}): no evaluation of it among those given; "
                f"evaluate it, such as by snakemake results/evaluate/{run.name}/summary.json"
            )
    first = evaluations[runs[0].fingerprint]
    for run in runs[1:]:
        summary = evaluations[run.fingerprint]
        same = ({key: each[key] for key in _EVALUATED} for each in (summary, first))
        for key, (found, wanted) in _unequal(*same).items():
            raise RunError(
                f"the evaluation of run {run.name} has {key} {found}, that of run {runs[0].name} "
                f"{wanted}; evaluate both in the same way"
            )


def _unequal(
    found: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, tuple[str | None, str | None]]:
    """The keys in which two trees differ, with both values."""
    left, right = flat_settings(found), flat_settings(expected)
    keys = sorted(left.keys() | right.keys())
    pairs = {key: (left.get(key), right.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _sentence(preset: str, rows: pd.DataFrame, metric: Metric) -> str:
    """What the rows of a preset say of a metric."""
    by_model = rows.set_index("model")[f"{metric.name} difference"]
    if by_model.isna().any():
        return f"{preset}: there is no {metric.title} to compare."
    without, shuffled = (float(by_model[variant.label]) for variant in DERIVED)
    text = (
        f"{preset}: without spikes {metric.title} is {_worse(metric, without)} than with them, "
        f"with shuffled spikes {_worse(metric, shuffled)}."
    )
    if shuffled >= 0:
        text += " This model makes no use of which spikes belong to which frame."
    return text


def _worse(metric: Metric, difference: float) -> str:
    return f"{metric.text(abs(difference))} {'worse' if difference < 0 else 'better'}"
