"""Files of an evaluation, as the pipeline's page, report and comparison read them.

A *frame* of the tables is the forecast of one month, a *sequence* all those that look equally far
ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray

from vrtspike.analysis.evaluation_files import (
    COMPARISON_PICTURES,
    METRICS_PAGE,
    EvaluationSummary,
    chosen_on_warning,
    write_evaluation,
)
from vrtspike.config.run_schema import unchanged_weights_note
from vrtspike.io.files import finite_or_null, replaced_folder
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.comparison import MIN_SAMPLES
from vrtspike.sst.evaluate import ForecastEvaluation
from vrtspike.sst.figures import CAPTIONS, draw_evaluation
from vrtspike.sst.months import month_name
from vrtspike.sst.scores import BEST_POSSIBLE, LABELS, MODEL, skill
from vrtspike.sst.settings import METRICS, RMSE

_SCORES = (
    "acc_centred: after each field's mean was taken off; _detrended: anomalies about the linear "
    "trend of the training years; nino34: correlation of the index; difference_k: RMSE of the "
    "model less that of the system; _low and _high: 95 % interval by Student's t, with the "
    "standard error of a moving block bootstrap over start months; p: two-sided, of this lead "
    "alone; p_holm: adjusted for the number of leads by Holm's method, which keeps the probability "
    "of any false verdict below 0.05; verdicts follow it."
)
_BEST_POSSIBLE = (
    "best possible forecast: the expectation of the generated temperature, given all until the "
    "start month; no forecast has a lower RMSE in the mean over many start months."
)


class ForecastSummary(EvaluationSummary, total=False):
    """The contents of ``summary.json``.

    Attributes:
        masked: share of sea and months that are not measured.
        leads: rows of the comparison with the best baseline, by months ahead.
    """

    masked: float
    leads: list[dict[str, Any]]


def write_forecast_results(
    job: EvaluationJob, evaluation: ForecastEvaluation, facts: EvaluationSummary
) -> list[str]:
    """Write all files of an evaluation.

    Args:
        job: job, whose folder receives ``frames.csv``, ``sequences.csv``, ``summary.json``,
            ``metrics.html`` and ``pictures/``; ``examples/`` stays empty.
        evaluation: forecasts and scores.
        facts: further entries of the summary.

    Returns:
        the result in lines of text.
    """
    dataset = evaluation.dataset
    frames, sequences = metric_tables(evaluation)
    first, last = getattr(dataset.store.years, dataset.split.upper())
    title = f"{dataset.store.grid.area.name}, {first} to {last} ({dataset.split})"
    warnings = _warnings(job, dataset.split)
    notes = [
        f"{len(frames)} forecasts",
        f"{evaluation.masked:.1%} of the sea is masked as ice ({dataset.store.manifest['ice']})",
        f"{dataset.left_out} samples with missing months are left out",
        *warnings,
    ]
    note = "; ".join(notes)
    verdicts = _verdict_lines(evaluation)
    definitions = {name: metric.explanation for name, metric in METRICS.items()}
    definitions[RMSE] += (
        f"; baseline: the best of {len(BASELINES)} at each lead; {'; '.join(verdicts)}"
    )
    with replaced_folder(job.output / COMPARISON_PICTURES) as folder:
        draw_evaluation(folder, evaluation, title)
    _write_table(job, evaluation, f"{title}: {note}.", definitions)
    figures = [
        {"file": f"{COMPARISON_PICTURES}/{name}", "caption": caption}
        for name, caption in CAPTIONS.items()
    ]
    entries: ForecastSummary = {
        "definitions": definitions,
        "warnings": warnings,
        "figures": figures,
        "masked": evaluation.masked,
        "leads": finite_or_null(evaluation.verdicts.reset_index().to_dict("records")),
        **facts,
    }
    write_evaluation(job, dataset.split, frames, sequences, entries)
    return [f"{job.run.name}, {title}: {note}", *(f"  {line}" for line in verdicts)]


def metric_tables(evaluation: ForecastEvaluation) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both metrics of the model, the best and every baseline, and the best possible.

    Returns:
        a row for each month forecast; and one for each number of months ahead, over all its
        forecasts together.
    """
    best = xarray.DataArray(evaluation.verdicts["baseline"])
    single = skill(evaluation.means.rename(sample="frame").expand_dims("sample"))
    frames = _metric_table(single, best, ["lead", "frame"])
    sequences = _metric_table(evaluation.table, best, ["lead"])
    last_months = np.array(evaluation.dataset.last_months)[frames["frame"]]
    frames["frame"] = [month_name(month) for month in last_months + frames["lead"]]
    sequences["frames"] = len(evaluation.dataset)
    return frames, sequences


def _metric_table(
    scores: xarray.Dataset, best: xarray.DataArray, dims: Sequence[str]
) -> pd.DataFrame:
    """Return a column for each metric of each system, a row for each place along dimensions."""
    systems: dict[str, str | xarray.DataArray] = {"": MODEL, "_baseline": best}
    others = [name for name in scores["system"].values if name != MODEL]
    systems |= {f"_{name}": name for name in others}
    columns = {}
    for suffix, system in systems.items():
        for metric, score in zip(METRICS, ("rmse_k", "acc"), strict=True):
            column = scores[score].sel(system=system)
            columns[metric + suffix] = column.drop_vars("system")
    rows = xarray.Dataset(columns).to_dataframe(dims).reset_index()
    return rows.assign(sequence=[_ahead(lead) for lead in rows["lead"]])


def _ahead(lead: int) -> str:
    if lead == 1:
        return "1 month ahead"
    return f"{lead} months ahead"


def _warnings(job: EvaluationJob, split: str) -> list[str]:
    """Return reasons why the scores are not an independent test of a trained model."""
    warnings = []
    if split == "val":
        warnings.append(chosen_on_warning("the validation split", "TEST.SPLIT is val"))
    start = job.run.settings.unchanged_weights
    if start is not None:
        warnings.append(unchanged_weights_note(start))
    return warnings


def _verdict_lines(evaluation: ForecastEvaluation) -> list[str]:
    """Return a line of text for each lead."""
    lines = []
    for row in evaluation.verdicts.reset_index().itertuples():
        difference = f"difference {row.difference_k:+.3f} K"
        if len(evaluation.dataset) >= MIN_SAMPLES:
            difference += (
                f", 95 % interval {row.low_k:+.3f} to {row.high_k:+.3f}, p = {row.p:.3f}, by Holm "
                f"{row.p_holm:.3f}"
            )
        lines.append(
            f"{row.lead} ahead: RMSE {row.rmse_k:.3f} K, {row.verdict} ({row.baseline_k:.3f} K; "
            f"{difference})"
        )
    return lines


def _write_table(
    job: EvaluationJob, evaluation: ForecastEvaluation, note: str, definitions: dict[str, str]
) -> None:
    """Write ``metrics.html``: verdicts, and every score of every system."""
    verdicts = evaluation.verdicts.reset_index()
    scores = evaluation.table.to_dataframe(["lead", "system"]).reset_index()
    formats = {name: ".3f" for name in [*scores, *verdicts] if name != "lead"}
    tables = [
        Table(verdicts, "The model and the best baseline", formats=formats),
        Table(scores.replace({"system": LABELS}), "Every score", formats=formats),
    ]
    explanations = [f"{name}: {text}." for name, text in definitions.items()]
    explanations.append(_SCORES)
    if BEST_POSSIBLE in evaluation.table["system"]:
        explanations.append(_BEST_POSSIBLE)
    write_page(
        job.output / METRICS_PAGE,
        f"Results of preset {job.run.name}",
        note,
        tables,
        explanations,
    )
