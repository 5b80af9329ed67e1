"""The evaluation of a preset: the files that the pipeline's page, report and comparison read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import torch
import xarray

from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    EXAMPLES_INDEX,
    FRAMES,
    PICTURES,
    SEQUENCES,
    SUMMARY,
    TABLE,
    write_summary,
)
from vrtspike.io.files import atomic_write_text, finite_or_null, replaced_folder, write_json
from vrtspike.io.weights import load_trained
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import require_published
from vrtspike.sst.baselines import BASELINES
from vrtspike.sst.evaluate import (
    CAPTIONS,
    MODEL,
    SYSTEMS,
    Evaluation,
    draw_evaluation,
    evaluate,
    skill,
)
from vrtspike.sst.models import build_model
from vrtspike.sst.problem import open_split
from vrtspike.sst.settings import METRICS, RMSE, month_name

if TYPE_CHECKING:
    from vrtspike.runs.published import PublishedRun
    from vrtspike.sst.settings import SSTSettings

WORST = 5
"""Forecasts that a summary names as the worst."""
CHOSEN_ON = "not a test: validation looked at these years during the training (TEST.SPLIT is val)"
_SCORES = (
    "acc_centred: after each field's mean was taken off; _detrended: anomalies about the linear "
    "trend of the training years; nino34: correlation of the index; _low and _high: 95 % interval "
    "of a moving block bootstrap over start months."
)


def evaluate_preset(
    weights: Path,
    run: PublishedRun,
    manifest: Path,
    output: Path,
    device: torch.device,
    progress: Callable[[int, int], None],
) -> list[str]:
    """Forecast the years of TEST.SPLIT and write every result into ``output``.

    A *frame* of the tables is the forecast of one month, a *sequence* all those that look equally
    far ahead.

    Args:
        weights: the run's ``weights.safetensors``.
        run: its settings and identity.
        manifest: of the data.
        output: folder for ``frames.csv``, ``sequences.csv``, ``summary.json``, ``metrics.html``
            and ``pictures/``; ``examples/`` stays empty.
        device: where to compute.
        progress: called with the samples done and their total.

    Returns:
        what a person reads of it.

    Raises:
        DataError: if the data are missing or too short.
        RunError: if the weights belong to another model.
    """
    settings = cast("SSTSettings", run.settings)
    samples = open_split(settings, manifest, settings.TEST.SPLIT)
    model = build_model(settings.MODEL, samples.store, samples.seq_len, samples.lead)
    load_trained(model, weights)
    require_published(weights)
    progress(0, len(samples))
    started = time.monotonic()
    found = evaluate(model.to(device), samples, device, settings.TEST.BATCH_SIZE, progress)
    verdicts = found.verdicts.reset_index()
    frames, sequences = frame_table(found), sequence_table(found)
    first, last = samples.store.years.span(samples.split)
    title = f"{settings.DATA.AREA.NAME}, {first} to {last} ({samples.split})"
    definitions = {name: metric.explanation for name, metric in METRICS.items()}
    told = ", ".join(f"{row.lead} ahead {row.verdict}" for row in verdicts.itertuples())
    definitions[RMSE] += (
        f"; baseline: the best of {len(BASELINES)} at each lead: the model is {told}"
    )
    summary = {
        "schema": 1,
        "task": settings.TASK,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": manifest.parent.name,
        "dataset_digest": samples.store.digest,
        "split": samples.split,
        "sequences": len(sequences),
        "frames": len(frames),
        "scale": 1.0,
        "metrics": _overall(sequences),
        "definitions": definitions,
        "warnings": [CHOSEN_ON] if samples.split == "val" else [],
        "worst": frames.nlargest(WORST, RMSE)[["sequence", "frame", RMSE]].to_dict("records"),
        "figures": [{"file": f"{PICTURES}/{n}", "caption": c} for n, c in CAPTIONS.items()],
        "ice": samples.store.manifest["ice"],
        "masked": found.masked,
        "left_out": samples.left_out,
        "leads": verdicts.to_dict("records"),
        "device": device.type,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds_per_frame": (time.monotonic() - started) / len(frames),
    }
    with replaced_folder(output / EXAMPLES) as folder:
        write_json(folder / EXAMPLES_INDEX, {"choice": "", "examples": []})
    with replaced_folder(output / PICTURES) as folder:
        draw_evaluation(folder, found, title)
    for name, table in ((FRAMES, frames), (SEQUENCES, sequences)):
        atomic_write_text(output / name, table.to_csv(index=False, float_format="%.6f"))
    notes = [
        f"{found.masked:.1%} of the sea is masked as ice ({summary['ice']})",
        f"{samples.left_out} samples with missing months are left out",
        *summary["warnings"],
    ]
    every = found.table.to_dataframe(["lead", "system"]).reset_index()
    formats = {name: ".3f" for name in [*every, *verdicts] if name != "lead"}
    write_page(
        output / TABLE,
        f"Results of preset {run.name}",
        f"{title}, {len(frames)} forecasts. {'. '.join(notes)}.",
        [
            Table(verdicts, "The model and the best baseline", formats=formats),
            Table(every.replace({"system": SYSTEMS}), "Every score", formats=formats),
        ],
        [*(f"{name}: {text}." for name, text in definitions.items()), _SCORES],
    )
    write_summary(output / SUMMARY, summary)
    lines = [f"{run.name}: {len(frames)} forecasts of {samples.split}; {notes[0]}"]
    for row in verdicts.itertuples():
        lines.append(
            f"  {row.lead} ahead: RMSE {row.rmse_k:.3f} K, {row.verdict} ({row.baseline_k:.3f} K; "
            f"difference {row.difference_k:+.3f} K, 95 % interval {row.low_k:+.3f} to "
            f"{row.high_k:+.3f}, p = {row.p:.3f})"
        )
    return lines


def sequence_table(found: Evaluation) -> pd.DataFrame:
    """A row for each number of months ahead, over all its forecasts together."""
    table = _metric_table(found.table, found).drop(columns="lead")
    return table.assign(frames=len(found.dataset))


def frame_table(found: Evaluation) -> pd.DataFrame:
    """A row for each month forecast: RMSE in kelvin and correlation of every system."""
    each = skill(found.means.rename(sample="frame").expand_dims("sample"))
    table = _metric_table(each, found)
    last = table["frame"].map(found.dataset.last_month)
    return table.assign(frame=[month_name(month) for month in last + table.pop("lead")])


def _metric_table(table: xarray.Dataset, found: Evaluation) -> pd.DataFrame:
    """Both metrics of the model, of the best baseline and of each baseline."""
    best = xarray.DataArray(found.verdicts["baseline"])
    systems = {"": MODEL, "_baseline": best, **{f"_{name}": name for name in BASELINES}}
    columns = {
        f"{metric}{suffix}": table[score].sel(system=system).drop_vars("system")
        for suffix, system in systems.items()
        for metric, score in zip(METRICS, ("rmse_k", "acc"), strict=True)
    }
    others = [dim for dim in table.dims if dim not in ("system", "lead")]
    rows = xarray.Dataset(columns).to_dataframe(["lead", *others]).reset_index()
    ahead = [f"{lead} month{'s' * (lead > 1)} ahead" for lead in rows["lead"]]
    rows.insert(0, "sequence", ahead)
    return rows.assign(scale=1.0)


def _overall(sequences: pd.DataFrame) -> dict[str, Any]:
    """Each metric's mean over the months ahead."""
    found = {}
    for metric in METRICS.values():
        before, after = (float(sequences[column].mean()) for column in metric.columns)
        figures = (before, after, metric.gain(after, before))
        found[metric.name] = dict(zip(metric.kinds, figures, strict=True))
    overall: dict[str, Any] = finite_or_null(found)
    return overall
