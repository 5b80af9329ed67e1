"""Ablations and seeds: tables that compare a preset with its variants, or its seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import Summary
from vrtspike.analysis.evaluations import (
    SPREAD,
    Measured,
    frames_note,
    measured_metrics,
    quality,
    quality_formats,
    quality_note,
    read_evaluated,
    require_equal,
    require_seeds,
    seeds_quality,
    with_notes,
)
from vrtspike.config.loading import derive, require_ablation
from vrtspike.config.run_schema import Ablation, Variant, seed_names, split_seed
from vrtspike.errors import RunError
from vrtspike.io.files import atomic_write_text
from vrtspike.io.flatten import unequal
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import PublishedRun

TABLE = "table"

Models = Sequence[Sequence[PublishedRun]]
"""The runs of an ablation: for the preset and then each variant, those of all seeds."""

_TEXTS = ("preset", "model")
_EVALUATED = ("protocol", "dataset_digest", "split", "scale", "tile")
"""Keys of summaries that must be equal in all evaluations of an ablation."""


def compare_variants(folders: Sequence[Path], output: Path) -> tuple[pd.DataFrame, list[str]]:
    """Compare the models of each ablation and write the table into ``output``.

    Args:
        folders: result folders (``results/train/<preset>``) of presets and all their variants, with
            evaluations.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        a row for each model of a preset, and a sentence on each preset.

    Raises:
        RunError: if a run or its evaluation is missing, two runs have one name, or the runs of a
            preset differ in more than the variant's key and the seed.
        ConfigError: if a preset lacks what the ablation removes.
    """
    runs, evaluations = read_evaluated(folders)
    ablations = list(_group(runs))
    for models in ablations:
        for seeds in models:
            require_seeds(seeds)
        _require_equal_training([seeds[0] for seeds in models])
        _require_equal_evaluation([run for seeds in models for run in seeds], evaluations)
    every = [run for models in ablations for seeds in models for run in seeds]
    metrics = measured_metrics(evaluations[run.name] for run in every)
    table = ablation_table(ablations, evaluations, metrics)
    sentences = [
        _sentence(models, table[table["preset"] == models[0][0].name], evaluations)
        for models in ablations
    ]
    atomic_write_text(output / f"{TABLE}.csv", table.to_csv(index=False, float_format="%.6f"))
    first = frozenset(index for index, is_one in enumerate(~table["preset"].duplicated()) if is_one)
    page = Table(table, formats=_formats(metrics), strong_rows=first)
    definitions = [_ablation_of(models[0][0]) for models in ablations]
    title = "; ".join(dict.fromkeys(ablation.title for ablation in definitions))
    about_seeds = (
        f"The {SPREAD} is the standard deviation over seeds (SEEDS)."
        if "seeds" in table
        else "One seed each, so that the spread over seeds is unknown (SEEDS)."
    )
    notes = [*dict.fromkeys(each.note for each in definitions), quality_note(metrics), about_seeds]
    note = " ".join([*notes, frames_note(evaluations)]).strip()
    write_page(output / f"{TABLE}.html", title, note, [page], sentences)
    return table, sentences


def ablation_table(
    ablations: Sequence[Models], evaluations: Mapping[str, Summary], metrics: Measured
) -> pd.DataFrame:
    """The metrics of every model, and their gains over the preset's own model.

    Args:
        ablations: the runs of each ablation.
        evaluations: by the name of the run.
        metrics: the columns. If a model has several seeds, columns are means over them, with the
            number of seeds and the spread of each metric.
    """
    several = any(len(seeds) > 1 for models in ablations for seeds in models)
    rows = []
    for models in ablations:
        preset, *_ = models[0]
        own = _figures(models[0], evaluations, metrics)
        for seeds, label in zip(models, _ablation_of(preset).labels, strict=True):
            row: dict[str, Any] = {"preset": preset.name, "model": label}
            row |= {"seeds": len(seeds)} if several else {}
            this = _figures(seeds, evaluations, metrics)
            for name, metric in metrics.items():
                columns = seeds_quality([None], {name: metric})
                row |= {c: this[c] for c in columns if several or not c.endswith(f" {SPREAD}")}
                found, reference = (each[f"{name} {metric.after}"] for each in (this, own))
                row[f"{name} difference"] = (
                    None if found is None or reference is None else metric.gain(found, reference)
                )
            rows.append(row | {"steps": seeds[0].steps, "parameters": seeds[0].parameters})
    table = pd.DataFrame(rows)
    figures = dict.fromkeys([name for name in table if name not in _TEXTS], "float64")
    whole = [name for name in ("seeds", "steps", "parameters") if name in table]
    table = table.astype(figures | dict.fromkeys(whole, "Int64"))
    by_row = [[evaluations[run.name] for run in seeds] for models in ablations for seeds in models]
    return with_notes(table, by_row)


def _figures(
    seeds: Sequence[PublishedRun], evaluations: Mapping[str, Summary], metrics: Measured
) -> dict[str, float | None]:
    return seeds_quality([evaluations[run.name] for run in seeds], metrics)


def _formats(metrics: Measured) -> dict[str, str]:
    differences = {f"{name} difference": f"+{m.format}" for name, m in metrics.items()}
    return quality_formats(metrics) | differences | {"steps": ",", "parameters": ","}


def _ablation_of(run: PublishedRun) -> Ablation:
    """The ablation of a run's problem."""
    return require_ablation(run.name, run.settings)


def _group(runs: Sequence[PublishedRun]) -> Iterator[Models]:
    by_name = {run.name: run for run in runs}
    known = by_name.keys()
    for name, run in by_name.items():
        model, seed = split_seed(name)
        ablation = _ablation_of(run)
        origin = ablation.origin(model)
        if (seed > 1 and model in known) or origin in known:
            continue
        base = origin or model
        # Not from SEEDS, which may have changed since the run.
        numbers = [number for of, number in map(split_seed, known) if of == base]
        seeds = max(numbers, default=1)
        models = [seed_names(model, seeds) for model in (base, *ablation.names(base))]
        if missing := [name for names in models for name in names if name not in known]:
            raise RunError(
                f"the ablation of {base} needs the run {missing[0]}; found: {', '.join(by_name)}. "
                "Train it, or give its folder, too"
            )
        yield [[by_name[name] for name in names] for names in models]


def _require_equal_training(runs: Sequence[PublishedRun]) -> None:
    """Refuse runs that differ in more than their variant's key."""
    reference, *others = runs
    for run, variant in zip(others, _ablation_of(reference).variants, strict=True):
        expected = derive(reference.name, reference.settings, variant)
        require_equal(run, reference, expected, variant.override)


def _require_equal_evaluation(
    runs: Sequence[PublishedRun], evaluations: Mapping[str, Summary]
) -> None:
    """Refuse runs whose evaluations differ in protocol, data, split, scale or tile."""
    first = evaluations[runs[0].name]
    for run in runs[1:]:
        summary = evaluations[run.name]
        same = ({key: each.get(key) for key in _EVALUATED} for each in (summary, first))
        for key, (found, wanted) in unequal(*same).items():
            raise RunError(
                f"the evaluation of run {run.name} has {key} {found}, that of run {runs[0].name} "
                f"{wanted}; evaluate both with the same settings"
            )


def _sentence(models: Models, rows: pd.DataFrame, evaluations: Mapping[str, Summary]) -> str:
    """A sentence on the main metric of a preset and its variants."""
    run = models[0][0]
    preset, ablation = run.name, _ablation_of(run)
    measured = measured_metrics([evaluations[run.name]])
    if not measured:
        return f"{preset}: nothing was measured."
    name, metric = next(iter(measured.items()))
    by_model = rows.set_index("model")[f"{name} difference"]
    if by_model.isna().any():
        return f"{preset}: there is no {metric.title} to compare."
    spreads = _spreads(rows, name, ablation)
    found = [(variant, float(by_model[variant.label])) for variant in ablation.variants]

    def describe(variant: Variant, difference: float, than: str = "") -> str:
        text = f"{metric.text(abs(difference))} {'worse' if difference < 0 else 'better'}{than}"
        spread = spreads.get(variant.label)
        if spread is not None and abs(difference) < spread:
            text += f" (less than the spread over seeds, {metric.text(spread)})"
        return text

    (first, difference), *others = found
    than = f" than {ablation.phrase}"
    parts = [f"{first.phrase} {metric.title} is {describe(first, difference, than)}"]
    parts += [f"{variant.phrase} {describe(variant, difference)}" for variant, difference in others]
    sentences = [f"{preset}: {', '.join(parts)}."]
    sentences += [variant.no_worse for variant, gain in found if variant.no_worse and gain >= 0]
    return " ".join(sentences)


def _spreads(rows: pd.DataFrame, metric: str, ablation: Ablation) -> dict[str, float]:
    """For each variant, the larger of its and the preset's spread over seeds."""
    if f"{metric} {SPREAD}" not in rows:
        return {}
    by_model = rows.set_index("model")[f"{metric} {SPREAD}"]
    own = float(by_model[ablation.label])
    return {v.label: max(own, float(by_model[v.label])) for v in ablation.variants}


def write_seeds(folders: Sequence[Path], output: Path) -> pd.DataFrame:
    """Compare the trainings of a preset with different seeds; write the table into ``output``.

    Args:
        folders: result folders (``results/train/<preset>``), one for each seed, with evaluations.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        a row for each seed, then their mean; the columns ``spread`` of the latter hold the standard
        deviation over seeds.

    Raises:
        RunError: if a run or its evaluation is missing, or the runs differ in more than the seed.
    """
    runs, summaries = read_evaluated(folders)
    require_seeds(runs)
    metrics = measured_metrics(summaries.values())
    rows = [
        {"seed": str(run.settings.SEED), **quality(summaries[run.name], metrics)} for run in runs
    ]
    mean = {"seed": f"mean of {len(runs)}", **seeds_quality(list(summaries.values()), metrics)}
    table = pd.DataFrame([*rows, mean], columns=list(mean))
    table = table.astype(dict.fromkeys(table.columns[1:], "float64"))
    table = with_notes(table, [*([summary] for summary in summaries.values()), summaries.values()])
    atomic_write_text(output / f"{TABLE}.csv", table.to_csv(index=False, float_format="%.6f"))
    note = (
        f"Trainings that differ in their seed alone. {quality_note(metrics)} The {SPREAD} is the "
        f"standard deviation over seeds. {frames_note(summaries)}"
    )
    page = Table(table, formats=quality_formats(metrics), strong_rows=frozenset({len(runs)}))
    write_page(output / f"{TABLE}.html", f"Seeds of {runs[0].name}", note.strip(), [page])
    return table
