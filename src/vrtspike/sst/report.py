"""The evaluation of a preset: the files that the pipeline's page, report and comparison read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pandas as pd
import torch
import xarray

from vrtspike.analysis.evaluation_files import PICTURES, TABLE, write_evaluation
from vrtspike.io.files import replaced_folder
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

CHOSEN_ON = "not a test: validation looked at these years during the training (TEST.SPLIT is val)"
_SCORES = (
    "acc_centred: after each field's mean was taken off; _detrended: anomalies about the linear "
    "trend of the training years; nino34: correlation of the index; difference_k: RMSE of the "
    "model less that of the system; _low and _high: 95 % interval of a moving block bootstrap over "
    "start months."
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
    model = build_model(settings.MODEL, samples)
    load_trained(model, weights)
    require_published(weights)
    progress(0, len(samples))
    started = time.monotonic()
    found = evaluate(model.to(device), samples, device, settings.TEST.BATCH_SIZE, progress)
    seconds = time.monotonic() - started
    verdicts = found.verdicts.reset_index()
    told = [
        f"{row.lead} ahead: RMSE {row.rmse_k:.3f} K, {row.verdict} ({row.baseline_k:.3f} K; "
        f"difference {row.difference_k:+.3f} K, 95 % interval {row.low_k:+.3f} to "
        f"{row.high_k:+.3f}, p = {row.p:.3f})"
        for row in verdicts.itertuples()
    ]
    first, last = samples.store.years.span(samples.split)
    title = f"{settings.DATA.AREA.NAME}, {first} to {last} ({samples.split})"
    ice = samples.store.manifest["ice"]
    warnings = [CHOSEN_ON] if samples.split == "val" else []
    notes = [
        f"{len(samples) * samples.lead} forecasts",
        f"{found.masked:.1%} of the sea is masked as ice ({ice})",
        f"{samples.left_out} samples with missing months are left out",
        *warnings,
    ]
    definitions = {name: metric.explanation for name, metric in METRICS.items()}
    definitions[RMSE] += f"; baseline: the best of {len(BASELINES)} at each lead; {'; '.join(told)}"
    with replaced_folder(output / PICTURES) as folder:
        draw_evaluation(folder, found, title)
    every = found.table.to_dataframe(["lead", "system"]).reset_index()
    formats = {name: ".3f" for name in [*every, *verdicts] if name != "lead"}
    write_page(
        output / TABLE,
        f"Results of preset {run.name}",
        f"{title}. {'. '.join(notes)}.",
        [
            Table(verdicts, "The model and the best baseline", formats=formats),
            Table(every.replace({"system": SYSTEMS}), "Every score", formats=formats),
        ],
        [*(f"{name}: {text}." for name, text in definitions.items()), _SCORES],
    )
    frames = frame_table(found)
    write_evaluation(
        output,
        run,
        manifest,
        samples.split,
        frames,
        sequence_table(found),
        scale=1.0,
        definitions=definitions,
        warnings=warnings,
        figures=[{"file": f"{PICTURES}/{n}", "caption": c} for n, c in CAPTIONS.items()],
        ice=ice,
        masked=found.masked,
        left_out=samples.left_out,
        leads=verdicts.to_dict("records"),
        device=device.type,
        parameters=sum(p.numel() for p in model.parameters()),
        seconds_per_frame=seconds / len(frames),
    )
    return [f"{run.name}, {title}: {'; '.join(notes)}", *(f"  {line}" for line in told)]


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
