"""Ablations: tables that compare a preset with its variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    SPREAD,
    EvaluatedRun,
    MetricColumns,
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
from vrtspike.config.loading import derive_variant, require_ablation
from vrtspike.config.seed_names import seed_names, split_seed
from vrtspike.io.flatten import differing_values
from vrtspike.plotting.pages import Table, write_tables
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

VariantSeeds = Sequence[Sequence[EvaluatedRun]]
"""The runs of an ablation: those of all seeds for the preset, then for each variant."""

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
    evaluated = read_evaluated(folders)
    ablations = list(_group(evaluated))
    for models in ablations:
        _require_comparable(models)
    table, metrics = ablation_table(ablations)
    sentences = [
        sentence
        for models in ablations
        for sentence in _sentences(models, table[table["preset"] == models[0][0].run.name])
    ]
    own_models = frozenset(table.index[~table["preset"].duplicated()])
    differences = {f"{name} difference": f"+{metric.format}" for name, metric in metrics.items()}
    formats = quality_formats(metrics) | differences | {"steps": ",", "parameters": ","}
    definitions = [_ablation_of(models[0][0].run) for models in ablations]
    title = "; ".join(dict.fromkeys(ablation.title for ablation in definitions))
    notes = dict.fromkeys(ablation.note for ablation in definitions)
    seed_note = "One seed each, so that the spread over seeds is unknown (SEEDS)."
    if "seeds" in table:
        seed_note = f"The {SPREAD} is the standard deviation over seeds (SEEDS)."
    frames = frames_note({member.run.name: member.summary for member in evaluated})
    note = " ".join([*notes, quality_note(metrics), seed_note, frames])
    page = Table(table, formats=formats, strong_rows=own_models)
    write_tables(output, title, note.strip(), [page], sentences)
    return table, sentences


def ablation_table(ablations: Sequence[VariantSeeds]) -> tuple[pd.DataFrame, MetricColumns]:
    """Return the metrics of every model, and their gains over the preset's own model.

    If a model has several seeds, values are means over them, with the number of seeds and the
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
    values, metrics = quality_table(
        [[member.summary for member in seeds] for models in ablations for seeds in models]
    )
    numbers = dict.fromkeys(("seeds", "steps", "parameters"), "Int64")
    table = pd.DataFrame(rows).astype(numbers).join(values)
    bases = table.drop_duplicates("preset").set_index("preset")
    for name, metric in metrics.items():
        result = f"{name} {metric.result_name}"
        difference = table[result] - table["preset"].map(bases[result])
        table[f"{name} difference"] = difference if metric.larger_is_better else -difference
    if (table["seeds"] == 1).all():
        table = table.drop(columns="seeds")
    # The main differences come first, so that they are visible on a small screen.
    main = next(iter(metrics.items()), None)
    leading = ["preset", "model"]
    if main is not None:
        name, metric = main
        leading += [f"{name} {metric.result_name}", f"{name} difference"]
    last = [name for name in ("seeds", "steps", "parameters", "note") if name in table]
    middle = [name for name in table if name not in (*leading, *last)]
    return table[[*leading, *middle, *last]], metrics


def _ablation_of(run: PublishedRun) -> Ablation:
    """Return the ablation of a run's task."""
    return require_ablation(run.name, run.settings)


def _group(evaluated: Sequence[EvaluatedRun]) -> Iterator[VariantSeeds]:
    """Group runs by the preset of their ablation, model and seed.

    Raises:
        RunError: if a run of an ablation is missing.
    """
    by_name = {member.run.name: member for member in evaluated}
    presets: dict[str, tuple[Ablation, int]] = {}
    for name, member in by_name.items():
        model, seed = split_seed(name)
        ablation = _ablation_of(member.run)
        base = ablation.origin(model) or model
        # Count the trained seeds, because SEEDS may have changed since.
        _, max_seed = presets.get(base, (ablation, 1))
        presets[base] = ablation, max(seed, max_seed)
    for base, (ablation, seeds) in presets.items():
        models = [seed_names(model, seeds) for model in (base, *ablation.names(base))]
        missing = [name for names in models for name in names if name not in by_name]
        if missing:
            raise RunError(
                f"the ablation of {base} needs the run {missing[0]}; found: {', '.join(by_name)}. "
                "Train it, or give its folder, too"
            )
        yield [[by_name[name] for name in names] for names in models]


def _require_comparable(models: VariantSeeds) -> None:
    """Reject models that differ in more than the key of their variant and the seed.

    Evaluations must not differ in protocol, data, split or tile.
    """
    for seeds in models:
        require_seeds([member.run for member in seeds])
    reference, *others = (seeds[0].run for seeds in models)
    for run, variant in zip(others, _ablation_of(reference).variants, strict=True):
        expected = derive_variant(reference.name, reference.settings, variant)
        require_equal(run, reference, expected, variant.override)
    first, *other_members = (member for seeds in models for member in seeds)
    expected_entries = {key: first.summary.get(key) for key in _EVALUATED}
    for other in other_members:
        entries = {key: other.summary.get(key) for key in _EVALUATED}
        for key, (value, wanted) in differing_values(entries, expected_entries).items():
            raise RunError(
                f"the evaluation of run {other.run.name} has {key} {value}, that of run "
                f"{first.run.name} {wanted}; evaluate both with the same settings"
            )


def _sentences(models: VariantSeeds, rows: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the main metric of each variant of a preset.

    What follows from a variant that is no worse is said only if it is better by at least the
    spread over seeds: with one seed each, or within the spread, either may be the better one.
    """
    base = models[0][0]
    preset = base.run.name
    ablation = _ablation_of(base.run)
    metrics = measured_metrics([base.summary])
    if not metrics:
        yield f"{preset}: nothing was measured."
        return
    name, metric = next(iter(metrics.items()))
    by_model = rows.set_index("model")
    gains = by_model[f"{name} difference"]
    for variant in ablation.variants:
        gain = float(gains[variant.label])
        if math.isnan(gain):
            yield f"{preset}: {variant.phrase} there is no {metric.title} to compare."
            continue
        change = f"{metric.text(abs(gain))} {'worse' if gain < 0 else 'better'} than"
        if metric.text(abs(gain)) == metric.text(0.0):
            change = "the same as"
        text = f"{preset}: {variant.phrase} {metric.title} is {change} {ablation.phrase}"
        spread = math.nan
        if "seeds" in rows:
            spread = by_model.loc[[ablation.label, variant.label], f"{name} {SPREAD}"].max()
            if abs(gain) < spread:
                text += f" (less than the spread over seeds, {metric.text(spread)})"
        if gain > 0 and gain >= spread:
            yield f"{text}. {variant.no_worse}".rstrip()
        else:
            yield f"{text}."
