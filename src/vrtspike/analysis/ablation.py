"""Presets beside what an ablation derives from them: what a part of a model is worth."""

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
from vrtspike.config.ablation import derive, require_ablation
from vrtspike.config.variants import Ablation
from vrtspike.errors import RunError
from vrtspike.files import atomic_write_text
from vrtspike.flatten import flat_settings
from vrtspike.metrics import Metric
from vrtspike.pages import Table, write_page
from vrtspike.runs.identity import result_settings
from vrtspike.runs.published import PublishedRun, read_published, require_names

TABLE = "table"

Models = Sequence[PublishedRun]
"""The runs of an ablation: that of the preset itself, then in the order of its variants."""

_TEXTS = ("preset", "model")
_EVALUATED = ("dataset_digest", "split", "scale", "tile")
"""What the evaluations of an ablation have in common."""


def compare_variants(
    train_folders: Sequence[Path], evaluate_folders: Sequence[Path], output: Path
) -> tuple[pd.DataFrame, list[str]]:
    """Set the models of each ablation against each other and write the table into ``output``.

    Args:
        train_folders: result folders of the runs (``results/train/<preset>``): of each preset that
            one, and those of its derived presets (:mod:`vrtspike.config.variants`).
        evaluate_folders: folders of their evaluations, matched by the run's fingerprint.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        a row for each model of a preset, and a sentence on each preset.

    Raises:
        RunError: if a run or its evaluation is missing, two runs have one name, or the runs of a
            preset differ in more than the ablation says.
        ConfigError: if a preset has not what the ablation takes away.
    """
    evaluations = read_evaluations(evaluate_folders)
    ablations = list(_group([read_published(folder) for folder in train_folders]))
    for runs in ablations:
        _require_equal_training(runs)
        _require_equal_evaluation(runs, evaluations)
    metrics = measured_metrics(evaluations[run.fingerprint] for runs in ablations for run in runs)
    table = ablation_table(ablations, evaluations, metrics)
    sentences = [
        _sentence(runs, table[table["preset"] == runs[0].name], evaluations) for runs in ablations
    ]
    atomic_write_text(output / f"{TABLE}.csv", table.to_csv(index=False, float_format="%.6f"))
    first = frozenset(index for index, is_one in enumerate(~table["preset"].duplicated()) if is_one)
    page = Table(table, formats=_formats(metrics), strong_rows=first)
    questions = [_question(runs) for runs in ablations]
    title = "; ".join(dict.fromkeys(question.title for question in questions))
    note = " ".join([*dict.fromkeys(each.note for each in questions), quality_note(metrics)])
    write_page(output / f"{TABLE}.html", title, note, [page], sentences)
    return table, sentences


def ablation_table(
    ablations: Sequence[Models], evaluations: Mapping[str, Summary], metrics: Sequence[Metric]
) -> pd.DataFrame:
    """The metrics of every model, and by how much each is better than the preset's own.

    Args:
        ablations: runs that belong together, that of the preset itself first.
        evaluations: by fingerprint.
        metrics: the columns.
    """
    rows = []
    for runs in ablations:
        for run, label in zip(runs, _question(runs).labels, strict=True):
            row: dict[str, Any] = {"preset": runs[0].name, "model": label}
            own, this = (evaluations[each.fingerprint]["metrics"] for each in (runs[0], run))
            for metric in metrics:
                row |= quality(evaluations[run.fingerprint], [metric])
                row[f"{metric.name} difference"] = _difference(metric, this, own)
            rows.append(row | {"steps": run.steps, "parameters": run.parameters})
    table = pd.DataFrame(rows)
    figures = dict.fromkeys([name for name in table if name not in _TEXTS], "float64")
    return table.astype(figures | {"steps": "Int64", "parameters": "Int64"})


def _difference(
    metric: Metric, found: Mapping[str, Any], reference: Mapping[str, Any]
) -> float | None:
    """By how much the result of one evaluation is better than that of another."""
    values = [each.get(metric.name, {}).get(metric.after) for each in (found, reference)]
    return None if None in values else metric.gain(*values)


def _formats(metrics: Sequence[Metric]) -> dict[str, str]:
    differences = {f"{metric.name} difference": f"+{metric.format}" for metric in metrics}
    return quality_formats(metrics) | differences | {"steps": ",", "parameters": ","}


def _question(runs: Models) -> Ablation:
    """What the models of an ablation are compared for."""
    return require_ablation(runs[0].name, runs[0].settings)


def _group(runs: Sequence[PublishedRun]) -> Iterator[Models]:
    require_names(runs)
    by_name = {run.name: run for run in runs}
    known = by_name.keys()
    for preset, run in by_name.items():
        question = require_ablation(preset, run.settings)
        origin = question.origin(preset)
        if origin in known:
            continue
        base = origin or preset
        names = [base, *question.names(base)]
        if missing := [name for name in names if name not in known]:
            raise RunError(
                f"the ablation of {base} needs the run {missing[0]}; found: {', '.join(by_name)}. "
                "Train it, or give its folder as well"
            )
        yield [by_name[name] for name in names]


def _require_equal_training(runs: Models) -> None:
    """Refuse runs that differ in more than what the ablation says."""
    reference, *others = runs
    for run, variant in zip(others, _question(runs).variants, strict=True):
        expected = derive(reference.name, reference.settings, variant)
        pairs = _unequal(result_settings(run.settings), result_settings(expected))
        pairs |= _unequal({"data set": run.dataset_digest}, {"data set": reference.dataset_digest})
        for key, (found, wanted) in pairs.items():
            raise RunError(
                f"run {run.name} has {key} {found}, expected {wanted}, for it shall differ from "
                f"run {reference.name} in {variant.override} only; train both again"
            )


def _require_equal_evaluation(runs: Models, evaluations: Mapping[str, Summary]) -> None:
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
        same = ({key: each.get(key) for key in _EVALUATED} for each in (summary, first))
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


def _sentence(runs: Models, rows: pd.DataFrame, evaluations: Mapping[str, Summary]) -> str:
    """What the rows of a preset say of its most important metric."""
    preset, question = runs[0].name, _question(runs)
    metric = next(iter(measured_metrics([evaluations[runs[0].fingerprint]])), None)
    if metric is None:
        return f"{preset}: nothing was measured."
    by_model = rows.set_index("model")[f"{metric.name} difference"]
    if by_model.isna().any():
        return f"{preset}: there is no {metric.title} to compare."
    found = [(variant, float(by_model[variant.label])) for variant in question.variants]
    (first, difference), *others = found
    parts = [
        f"{first.phrase} {metric.title} is {_worse(metric, difference)} than {question.phrase}"
    ]
    parts += [f"{variant.phrase} {_worse(metric, difference)}" for variant, difference in others]
    sentences = [f"{preset}: {', '.join(parts)}."]
    sentences += [variant.no_worse for variant, gain in found if variant.no_worse and gain >= 0]
    return " ".join(sentences)


def _worse(metric: Metric, difference: float) -> str:
    return f"{metric.text(abs(difference))} {'worse' if difference < 0 else 'better'}"
