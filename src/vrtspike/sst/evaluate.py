"""How good forecasts are, beside the two that cost nothing: persistence and climatology.

Persistence says that the anomaly of the last month stays, climatology that there is none. All
figures are of kelvin and weigh every cell by the area of its sea.

- RMSE: root of the mean over samples and area of the squared error.
- ACC, the anomaly correlation (Murphy and Epstein, 1989, not centred): forecast times observed
  anomaly, summed over samples and area, by the root of the product of the sums of their squares. It
  has no value for climatology, whose anomalies are 0.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.files import atomic_write_text, write_json
from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.maps import draw_error_maps, draw_months
from vrtspike.sst.months import MONTHS
from vrtspike.sst.names import CLIMATOLOGY, METHODS, MODEL, PERSISTENCE
from vrtspike.sst.store import PreparedStore

TABLE, SUMMARY = "metrics.csv", "summary.json"
ERROR_MAPS, MONTHLY = "error_maps.png", "months.png"
SCHEMA = 1

_Field = NDArray[np.float64]
Forecast = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From past (B, seq_len, H, W) and month (B,) to (B, lead, H, W), in standard deviations."""


@dataclass(frozen=True)
class Score:
    """Figures of one method.

    Attributes:
        samples: how many forecasts they are of.
        rmse_k: kelvin; None without any.
        acc: from -1 to 1; None without any, or where a side has no anomaly at all.
    """

    samples: int
    rmse_k: float | None
    acc: float | None


class Sums:
    """What the figures of one method come from, added up forecast by forecast.

    Args:
        weights: (H, W) shares of the sea's area, 1 in all.
        lead: months that are forecast.
    """

    def __init__(self, weights: _Field, lead: int) -> None:
        self._weights = weights
        self._counts = np.zeros((lead, MONTHS), int)
        # Squared error, product, squares of the forecast and of what came.
        self._sums = np.zeros((4, lead, MONTHS))
        self._cells = np.zeros((lead, *weights.shape))

    def add(self, forecast: _Field, observed: _Field, months: NDArray[np.int_]) -> None:
        """Add one sample.

        Args:
            forecast: (lead, H, W) anomalies in kelvin; land does not matter.
            observed: the same shape.
            months: (lead,) months of the year, from 0.
        """
        sea = self._weights > 0
        forecast, observed = (np.where(sea, field, 0) for field in (forecast, observed))
        squares = (forecast - observed) ** 2
        parts = (squares, forecast * observed, forecast**2, observed**2)
        for place, month in enumerate(months):
            self._counts[place, month] += 1
            for kind, part in enumerate(parts):
                self._sums[kind, place, month] += float((part[place] * self._weights).sum())
        self._cells += squares

    def score(self, lead: int, month: int | None = None) -> Score:
        """Figures of the forecasts of one lead (from 0), of one month of the year or of all."""
        chosen = slice(None) if month is None else slice(month, month + 1)
        count = int(self._counts[lead, chosen].sum())
        if count == 0:
            return Score(0, None, None)
        error, product, own, other = self._sums[:, lead, chosen].sum(axis=1)
        scale = float(np.sqrt(own * other))
        return Score(
            count, float(np.sqrt(error / count)), float(product / scale) if scale else None
        )

    def error_map(self, lead: int) -> _Field:
        """(H, W) RMSE in kelvin of each cell, NaN on land."""
        count = max(1, int(self._counts[lead].sum()))
        return np.where(self._weights > 0, np.sqrt(self._cells[lead] / count), np.nan)


@dataclass(frozen=True)
class Field:
    """Figures of the forecasts of one month.

    Attributes:
        sample: its number.
        lead: from 0 for the first month forecast.
        month: number of the month that was forecast.
        rmse_k: kelvin, by method.
        acc: by method; None where a side has no anomaly at all.
    """

    sample: int
    lead: int
    month: int
    rmse_k: dict[str, float]
    acc: dict[str, float | None]


@dataclass(frozen=True)
class Evaluation:
    """Figures of a model and of the two forecasts beside it.

    Attributes:
        store: the data.
        split: which years.
        offset: months between the last one read and the first one forecast.
        lead: months that are forecast.
        sums: by method.
        fields: each forecast of a month, in order of samples, then leads.
    """

    store: PreparedStore
    split: str
    offset: int
    lead: int
    sums: dict[str, Sums]
    fields: list[Field]

    def score(self, method: str, lead: int, month: int | None = None) -> Score:
        """Figures; ``lead`` from 0 for the first month forecast, ``month`` from 0 for January."""
        return self.sums[method].score(lead, month)

    def improvement(self, lead: int, over: str) -> float | None:
        """By which share the model's RMSE is below that of another method."""
        own, other = (self.score(method, lead).rmse_k for method in (MODEL, over))
        return None if own is None or not other else 1 - own / other

    def months_ahead(self, lead: int) -> int:
        """Months from the last one read to the one forecast."""
        return self.offset + lead + 1

    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each method, lead and month of the year, and one for all months."""
        found = []
        for method in METHODS:
            for lead in range(self.lead):
                for month in (None, *range(MONTHS)):
                    score = self.score(method, lead, month)
                    if score.samples:
                        name = "all" if month is None else month + 1
                        row = {"method": method, "lead": self.months_ahead(lead), "month": name}
                        found.append(row | vars(score))
        return found

    def summary(self) -> dict[str, Any]:
        """Figures over all months, as JSON."""
        leads = []
        for lead in range(self.lead):
            scores = {method: self.score(method, lead) for method in METHODS}
            leads.append(
                {
                    "lead": self.months_ahead(lead),
                    "samples": scores[MODEL].samples,
                    "rmse_k": {method: score.rmse_k for method, score in scores.items()},
                    "acc": {method: score.acc for method, score in scores.items()},
                    "improvement": {
                        over: self.improvement(lead, over) for over in (PERSISTENCE, CLIMATOLOGY)
                    },
                }
            )
        return {
            "schema": SCHEMA,
            "area": self.store.area.as_json(),
            "resolution": self.store.grid.resolution,
            "split": self.split,
            "years": list(self.store.years.span(self.split)),
            "data": self.store.digest,
            "leads": leads,
        }


@torch.no_grad()
def evaluate(
    forecast: Forecast,
    dataset: ERA5SSTMonthlyDataset,
    device: torch.device | str = "cpu",
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Forecast every sample of a data set.

    Args:
        forecast: a model, or any function like it. A model forecasts as in use, without dropout.
        dataset: the samples.
        device: where the forecast is computed.
        batch_size: samples that are forecast at once.
        progress: called with the samples done and their total.
    """
    if isinstance(forecast, nn.Module):
        forecast.eval()
    store, deviation = dataset.store, dataset.store.deviation.astype(np.float64)
    weights = store.weights()
    sums = {method: Sums(weights, dataset.lead) for method in METHODS}
    months_ahead = dataset.offset + 1 + np.arange(dataset.lead)
    fields: list[Field] = []
    for done, batch in _batches(dataset, batch_size):
        output = forecast(batch["past"].to(device), batch["month"].to(device)).float().cpu()
        for index, past, future, forecasts, month in zip(
            batch["index"].tolist(),
            batch["past"].numpy().astype(np.float64),
            batch["future"].numpy().astype(np.float64),
            output.numpy().astype(np.float64),
            batch["month"].tolist(),
            strict=True,
        ):
            months = (month + months_ahead) % MONTHS
            kelvin = deviation[months]
            last = np.broadcast_to(past[-1] * deviation[month], kelvin.shape)
            said = {
                MODEL: forecasts * kelvin,
                PERSISTENCE: last,
                CLIMATOLOGY: np.zeros_like(kelvin),
            }
            for method, anomalies in said.items():
                sums[method].add(anomalies, future * kelvin, months)
            for lead in range(dataset.lead):
                rmse, acc = {}, {}
                for method, anomalies in said.items():
                    observed = future[lead] * kelvin[lead]
                    rmse[method], acc[method] = field_figures(anomalies[lead], observed, weights)
                month_number = dataset.forecast_month(index, lead)
                fields.append(Field(index, lead, month_number, rmse, acc))
        if progress is not None:
            progress(done, len(dataset))
    return Evaluation(store, dataset.split, dataset.offset, dataset.lead, sums, fields)


def field_figures(
    forecast: _Field, observed: _Field, weights: _Field
) -> tuple[float, float | None]:
    """RMSE in kelvin and anomaly correlation of one field.

    Args:
        forecast: (H, W) anomalies in kelvin; land does not matter.
        observed: the same shape.
        weights: (H, W) shares of the sea's area, 1 in all.
    """
    forecast, observed = (np.where(weights > 0, field, 0) for field in (forecast, observed))
    error, product, own, other = (
        float((part * weights).sum())
        for part in ((forecast - observed) ** 2, forecast * observed, forecast**2, observed**2)
    )
    scale = float(np.sqrt(own * other))
    return float(np.sqrt(error)), product / scale if scale else None


def write_evaluation(folder: str | Path, evaluation: Evaluation, title: str) -> dict[str, Any]:
    """Write table, maps of error, figures by month and, when these stand, the summary.

    Args:
        folder: for the files; made where it is missing.
        evaluation: the figures.
        title: of the pictures.

    Returns:
        The summary.
    """
    folder = Path(folder)
    rows = evaluation.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write_text(folder / TABLE, text.getvalue())
    draw_evaluation(folder, evaluation, title)
    summary = evaluation.summary()
    write_json(folder / SUMMARY, summary)
    return summary


def draw_evaluation(folder: Path, evaluation: Evaluation, title: str) -> None:
    """Draw maps of error and figures by month into a folder."""
    leads = sorted({0, evaluation.lead // 2, evaluation.lead - 1})
    maps = {
        f"{method}, {ahead(evaluation, lead)}": evaluation.sums[method].error_map(lead)
        for lead in leads
        for method in METHODS
    }
    draw_error_maps(folder / ERROR_MAPS, maps, len(METHODS), evaluation.store.area, title)
    lines = {
        method: [evaluation.score(method, 0, month).rmse_k for month in range(MONTHS)]
        for method in METHODS
    }
    draw_months(folder / MONTHLY, lines, f"{title}, {ahead(evaluation, 0)}")


def ahead(evaluation: Evaluation, lead: int) -> str:
    """How far a lead (from 0) looks, in words."""
    months = evaluation.months_ahead(lead)
    return f"{months} month{'s' * (months > 1)} ahead"


def _batches(
    dataset: ERA5SSTMonthlyDataset, size: int
) -> Iterator[tuple[int, dict[str, torch.Tensor]]]:
    """Samples in order, and how many there have been with them."""
    for start in range(0, len(dataset), size):
        samples = [dataset[index] for index in range(start, min(start + size, len(dataset)))]
        batch = {name: torch.stack([s[name] for s in samples]) for name in samples[0]}
        yield start + len(samples), batch
