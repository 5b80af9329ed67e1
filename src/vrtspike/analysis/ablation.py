"""Ablations and seeds: tables that compare a preset with its variants, or its seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from vrtspike.analysis.evaluations import (
    SPREAD,
    Evaluated,
    Measured,
    frames_note,
    measured_metrics,
    quality_formats,
    quality_note,
    quality_table,
    read_evaluated,
    require_equal,
    require_seeds,
)
from vrtspike.config.ablations import Ablation
from vrtspike.config.loading import derive, require_ablation
from vrtspike.config.seeds import seed_names, split_seed
from vrtspike.io.flatten import unequal
from vrtspike.plotting.pages import Table, write_tables
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

Models = Sequence[Sequence[Evaluated]]
"""The runs of an ablation: for the preset and then each variant, those of all seeds."""

_EVALUATED = ("protocol", "dataset_digest", "split", "tile")
"""Keys of summaries that must be equal in all evaluations of an ablation."""


def compare_variants(folders: Sequence[Path], output: Path) -> tuple[pd.DataFrame, list[str]]:
    """Compare the models of each ablation and write the table into ``output``.

    Args:
        folders: result folders (``results/train/<preset>``) of presets and all their variants, with
            evaluations.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        a row for each model of a preset, and a sentence on each variant.

    Raises:
        RunError: if a run or its evaluation is missing, two runs have one name, or the runs of a
            preset differ in more than the variant's key and the seed.
        ConfigError: if a preset lacks what the ablation removes.
    """
    ablations = list(_group(read_evaluated(folders)))
    for models in ablations:
        _require_equal(models)
    table, metrics = ablation_table(ablations)
    sentences = [
        sentence
        for models in ablations
        for sentence in _sentences(models, table[table["preset"] == models[0][0].run.name])
    ]
    first = frozenset(table.index[~table["preset"].duplicated()])
    differences = {f"{name} difference": f"+{m.format}" for name, m in metrics.items()}
    formats = quality_formats(metrics) | differences | {"steps": ",", "parameters": ","}
    definitions = [_ablation_of(models[0][0].run) for models in ablations]
    title = "; ".join(dict.fromkeys(ablation.title for ablation in definitions))
    about_seeds = (
        f"The {SPREAD} is the standard deviation over seeds (SEEDS)."
        if "seeds" in table
        else "One seed each, so that the spread over seeds is unknown (SEEDS)."
    )
    notes = [*dict.fromkeys(each.note for each in definitions), quality_note(metrics), about_seeds]
    every = [each for models in ablations for seeds in models for each in seeds]
    note = " ".join([*notes, frames_note({each.run.name: each.summary for each in every})])
    page = Table(table, formats=formats, strong_rows=first)
    write_tables(output, title, note.strip(), [page], sentences)
    return table, sentences


def ablation_table(ablations: Sequence[Models]) -> tuple[pd.DataFrame, Measured]:
    """The metrics of every model, and their gains over the preset's own model.

    If a model has several seeds, figures are means over them, with the number of seeds and the
    spread of each metric.
    """
    rows = [
        {
            "preset": models[0][0].run.name,
            "model": label,
            "seeds": len(seeds),
            "steps": seeds[0].run.steps,
            "parameters": seeds[0].run.parameters,
        }
        for models in ablations
        for seeds, label in zip(models, _ablation_of(models[0][0].run).labels, strict=True)
    ]
    figures, metrics = quality_table(
        [[each.summary for each in seeds] for models in ablations for seeds in models]
    )
    numbers = dict.fromkeys(("seeds", "steps", "parameters"), "Int64")
    table = pd.DataFrame(rows).astype(numbers).join(figures)
    own = table.drop_duplicates("preset").set_index("preset")
    for name, metric in metrics.items():
        result = f"{name} {metric.after}"
        difference = table[result] - table["preset"].map(own[result])
        table[f"{name} difference"] = difference if metric.larger_is_better else -difference
    if (table["seeds"] == 1).all():
        table = table.drop(columns="seeds")
    # What the table is made for comes first, so that it is seen on a small screen.
    main = next(iter(metrics.items()), None)
    leading = ["preset", "model"]
    if main is not None:
        name, metric = main
        leading += [f"{name} {metric.after}", f"{name} difference"]
    last = [each for each in ("seeds", "steps", "parameters", "note") if each in table]
    middle = [each for each in table if each not in (*leading, *last)]
    return table[[*leading, *middle, *last]], metrics


def _ablation_of(run: PublishedRun) -> Ablation:
    """The ablation of a run's problem."""
    return require_ablation(run.name, run.settings)


def _group(evaluated: Sequence[Evaluated]) -> Iterator[Models]:
    known = {each.run.name: each for each in evaluated}
    presets: dict[str, tuple[Ablation, int]] = {}
    for name, each in known.items():
        model, seed = split_seed(name)
        ablation = _ablation_of(each.run)
        base = ablation.origin(model) or model
        # As many seeds as were trained, not SEEDS, which may have changed since.
        presets[base] = ablation, max(seed, presets.get(base, (ablation, 1))[1])
    for base, (ablation, seeds) in presets.items():
        models = [seed_names(model, seeds) for model in (base, *ablation.names(base))]
        if missing := [name for names in models for name in names if name not in known]:
            raise RunError(
                f"the ablation of {base} needs the run {missing[0]}; found: {', '.join(known)}. "
                "Train it, or give its folder, too"
            )
        yield [[known[name] for name in names] for names in models]


def _require_equal(models: Models) -> None:
    """Refuse models that differ in more than their variant's key and the seed.

    Also evaluations that differ in protocol, data, split or tile.
    """
    for seeds in models:
        require_seeds([each.run for each in seeds])
    reference, *others = (seeds[0].run for seeds in models)
    for run, variant in zip(others, _ablation_of(reference).variants, strict=True):
        expected = derive(reference.name, reference.settings, variant)
        require_equal(run, reference, expected, variant.override)
    first, *following = (each for seeds in models for each in seeds)
    for other in following:
        same = ({key: each.summary.get(key) for key in _EVALUATED} for each in (other, first))
        for key, (found, wanted) in unequal(*same).items():
            raise RunError(
                f"the evaluation of run {other.run.name} has {key} {found}, that of run "
                f"{first.run.name} {wanted}; evaluate both with the same settings"
            )


def _sentences(models: Models, rows: pd.DataFrame) -> Iterator[str]:
    """A sentence on the main metric of each variant of a preset."""
    preset, ablation = models[0][0].run.name, _ablation_of(models[0][0].run)
    name, metric = next(iter(measured_metrics([models[0][0].summary]).items()), ("", None))
    if metric is None:
        yield f"{preset}: nothing was measured."
        return
    by_model = rows.set_index("model")
    gains = by_model[f"{name} difference"]
    for variant in ablation.variants:
        gain = float(gains[variant.label])
        text = f"{preset}: {variant.phrase} {metric.title} is {metric.text(abs(gain))} "
        text += f"{'worse' if gain < 0 else 'better'} than {ablation.phrase}"
        if "seeds" in rows:
            spread = by_model.loc[[ablation.label, variant.label], f"{name} {SPREAD}"].max()
            if abs(gain) < spread:
                text += f" (less than the spread over seeds, {metric.text(spread)})"
        if math.isnan(gain):
            text = f"{preset}: {variant.phrase} there is no {metric.title} to compare"
        yield f"{text}. {variant.no_worse}".rstrip() if gain >= 0 else f"{text}."


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
    evaluated = read_evaluated(folders)
    require_seeds([each.run for each in evaluated])
    summaries = [each.summary for each in evaluated]
    figures, metrics = quality_table([*([summary] for summary in summaries), summaries])
    seeds = [*(str(each.run.settings.SEED) for each in evaluated), f"mean of {len(evaluated)}"]
    table = figures.assign(seed=seeds)[["seed", *figures.columns]]
    by_name = {each.run.name: each.summary for each in evaluated}
    note = (
        f"Trainings that differ in their seed alone. {quality_note(metrics)} The {SPREAD} is the "
        f"standard deviation over seeds. {frames_note(by_name)}"
    )
    page = Table(table, formats=quality_formats(metrics), strong_rows=frozenset({len(evaluated)}))
    write_tables(output, f"Seeds of {evaluated[0].run.name}", note.strip(), [page])
    return table
