"""The evaluation of a preset: tables, maps and the summary that reports read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from vrtspike.evaluation.names import (
    EXAMPLES,
    EXAMPLES_INDEX,
    FRAMES,
    PICTURES,
    SEQUENCES,
    SUMMARY,
    TABLE,
)
from vrtspike.files import atomic_write_text, replaced_folder, write_json
from vrtspike.pages import Table, write_page
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.evaluate import (
    ERROR_MAPS,
    MONTHLY,
    Evaluation,
    ahead,
    draw_evaluation,
    evaluate,
)
from vrtspike.sst.maps import draw_forecast
from vrtspike.sst.metrics import METRICS
from vrtspike.sst.models import build_model
from vrtspike.sst.months import MONTHS, month_name
from vrtspike.sst.names import CLIMATOLOGY, CORRELATION, MODEL, PERSISTENCE, RMSE
from vrtspike.sst.prepared import open_split, sst_settings
from vrtspike.weights import load_trained

if TYPE_CHECKING:
    from vrtspike.runs.published import PublishedRun

WORST = 5
"""Forecasts that a summary names as the worst."""
SHOWN = ("worst", "middle", "best")
"""Forecasts of the first month ahead that are drawn, by their RMSE."""
_SUFFIXES = {PERSISTENCE: f"_{PERSISTENCE}", CLIMATOLOGY: f"_{CLIMATOLOGY}", MODEL: ""}
"""Of the columns of tables, by method."""


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
    settings = sst_settings(run.settings)
    samples = open_split(settings, manifest, settings.TEST.SPLIT)
    model = build_model(settings.MODEL, samples.store, samples.seq_len, samples.lead)
    load_trained(model, weights)
    model = model.to(device).eval()
    progress(0, len(samples))
    started = time.monotonic()
    found = evaluate(model, samples, device, settings.TEST.BATCH_SIZE, progress)
    seconds = time.monotonic() - started
    frames, sequences = frame_table(found), sequence_table(found)
    first, last = samples.store.years.span(samples.split)
    title = f"{settings.DATA.AREA.NAME}, {first} to {last} ({samples.split})"
    captions = _write_pictures(output, found, model, samples, title)
    summary = {
        **_identity(run, manifest, samples),
        "sequences": len(sequences),
        "frames": len(frames),
        "scale": 1.0,
        "metrics": overall(sequences),
        "definitions": {metric.name: metric.explanation for metric in METRICS.values()},
        "worst": _worst(frames),
        "leads": found.summary()["leads"],
        "figures": captions,
        "device": device.type,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds_per_frame": seconds / len(frames),
    }
    atomic_write_text(output / FRAMES, _csv(frames))
    atomic_write_text(output / SEQUENCES, _csv(sequences))
    _write_table(output / TABLE, found, sequences, summary)
    write_json(output / SUMMARY, summary)
    return summary_lines(summary)


def frame_table(found: Evaluation) -> pd.DataFrame:
    """A row for each month forecast: RMSE in kelvin and correlation of the three methods."""
    rows = []
    for field in found.fields:
        row: dict[str, Any] = {
            "sequence": ahead(found, field.lead),
            "frame": month_name(field.month),
            "scale": 1.0,
        }
        for method, suffix in _SUFFIXES.items():
            row[f"{RMSE}{suffix}"] = field.rmse_k[method]
            row[f"{CORRELATION}{suffix}"] = field.acc[method]
        rows.append(row)
    return pd.DataFrame(rows).astype(dict.fromkeys(_columns(), float))


def sequence_table(found: Evaluation) -> pd.DataFrame:
    """A row for each number of months ahead, over all its forecasts together."""
    rows = []
    for lead in range(found.lead):
        scores = {method: found.score(method, lead) for method in _SUFFIXES}
        row: dict[str, Any] = {
            "sequence": ahead(found, lead),
            "frames": scores[MODEL].samples,
            "scale": 1.0,
        }
        for method, suffix in _SUFFIXES.items():
            row[f"{RMSE}{suffix}"] = scores[method].rmse_k
            row[f"{CORRELATION}{suffix}"] = scores[method].acc
        rows.append(row)
    return pd.DataFrame(rows).astype(dict.fromkeys(_columns(), float))


def overall(sequences: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    """Each metric's mean over the rows of :func:`sequence_table`."""
    found: dict[str, dict[str, float | None]] = {}
    for metric in METRICS.values():
        before, after = (float(sequences[column].mean()) for column in metric.columns)
        figures = (before, after, metric.gain(after, before))
        found[metric.name] = {
            kind: value if np.isfinite(value) else None
            for kind, value in zip(metric.kinds, figures, strict=True)
        }
    return found


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """What a summary says, a line for each number of months ahead, for the terminal."""
    lines = [f"{summary['preset']}: {summary['frames']} forecasts of {summary['split']}"]
    for lead in summary["leads"]:
        rmse, better = lead["rmse_k"], lead["improvement"]
        shares = [
            f"{abs(share):.0%} {'below' if share >= 0 else 'above'} {other}"
            for other, share in better.items()
            if share is not None
        ]
        lines.append(f"  {lead['lead']} ahead: RMSE {rmse[MODEL]:.3f} K, {', '.join(shares)}")
    return lines


def _columns() -> list[str]:
    return [f"{name}{suffix}" for suffix in _SUFFIXES.values() for name in METRICS]


def _identity(run: PublishedRun, manifest: Path, samples: ERA5SSTMonthlyDataset) -> dict[str, Any]:
    """What was evaluated on what."""
    store = samples.store
    return {
        "schema": 1,
        "task": run.settings.TASK,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": manifest.parent.name,
        "dataset_digest": store.digest,
        "split": samples.split,
        "area": store.area.as_json(),
        "resolution": store.grid.resolution,
        "years": list(store.years.span(samples.split)),
    }


def _worst(frames: pd.DataFrame) -> list[dict[str, Any]]:
    worst = frames.sort_values(RMSE, ascending=False, kind="stable").head(WORST)
    names = ("sequence", "frame", RMSE)
    return [dict(zip(names, row, strict=True)) for row in worst[list(names)].to_numpy().tolist()]


def _write_pictures(
    output: Path,
    found: Evaluation,
    model: nn.Module,
    samples: ERA5SSTMonthlyDataset,
    title: str,
) -> list[dict[str, str]]:
    """Maps of error, RMSE by month and some forecasts; returns files and captions."""
    with replaced_folder(output / EXAMPLES) as folder:
        write_json(folder / EXAMPLES_INDEX, {"choice": "", "examples": []})
    with replaced_folder(output / PICTURES) as folder:
        draw_evaluation(folder, found, title)
        captions = {ERROR_MAPS: "RMSE of each cell", MONTHLY: "RMSE by month of the year"}
        first = sorted((f for f in found.fields if f.lead == 0), key=lambda f: -f.rmse_k[MODEL])
        chosen = (first[0], first[len(first) // 2], first[-1])
        for which, field in zip(SHOWN, chosen, strict=True):
            name = f"{which}.png"
            words = f"{month_name(field.month)}, {ahead(found, 0)}: the {which} of {len(first)}"
            draw_forecast(
                folder / name,
                forecast_fields(model, samples, field.sample),
                samples.store.area,
                f"{words}, RMSE {field.rmse_k[MODEL]:.2f} K",
            )
            captions[name] = words
    return [{"file": f"{PICTURES}/{name}", "caption": words} for name, words in captions.items()]


@torch.no_grad()
def forecast_fields(
    model: nn.Module, samples: ERA5SSTMonthlyDataset, index: int
) -> dict[str, np.ndarray]:
    """The first month that a sample forecasts, in kelvin and NaN on land, (H, W) by title."""
    device = next(model.parameters()).device
    sample = samples[index]
    said = model(sample["past"][None].to(device), sample["month"][None].to(device))
    last = int(sample["month"])
    month = (last + samples.offset + 1) % MONTHS
    deviation, sea = samples.store.deviation.astype(np.float64), samples.store.sea

    def kelvin(anomaly: torch.Tensor, of: int) -> np.ndarray:
        return np.where(sea, anomaly.double().cpu().numpy() * deviation[of], np.nan)

    forecast, observed = kelvin(said[0, 0], month), kelvin(sample["future"][0], month)
    return {
        "last month read": kelvin(sample["past"][-1], last),
        "forecast": forecast,
        "observed": observed,
        "forecast less observed": forecast - observed,
    }


def _write_table(
    path: Path, found: Evaluation, sequences: pd.DataFrame, summary: Mapping[str, Any]
) -> None:
    by_month = pd.DataFrame(found.rows()).rename(columns={"rmse_k": "RMSE, K", "acc": "ACC"})
    formats = dict.fromkeys([*_columns(), "RMSE, K", "ACC"], ".3f")
    first, last = summary["years"]
    write_page(
        path,
        f"Results of preset {summary['preset']}",
        f"{summary['frames']} forecasts of the years {first} to {last} ({summary['split']}) of "
        f"{summary['area']['name']}.",
        [
            Table(sequences.drop(columns="scale"), "By months ahead", formats=formats),
            Table(by_month, "By month of the year", formats=formats),
        ],
        [f"{name}: {text}." for name, text in summary["definitions"].items()],
    )


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6f")
