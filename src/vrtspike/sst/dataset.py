"""Samples for training: sequences of monthly anomalies, and the loss of a forecast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field, validate_call
from torch import nn
from torch.utils.data import Dataset

from vrtspike.config.fields import NonNegative, Positive, PositiveFloat
from vrtspike.sst.grid import Area
from vrtspike.sst.settings import CORRELATION, MONTHS, RMSE, Years, YearSpan, month_name
from vrtspike.sst.store import PreparedStore, prepared_store
from vrtspike.system.errors import ConfigError, DataError
from vrtspike.training.objectives import Objective

SampleBatch = dict[str, torch.Tensor]


class ERA5SSTMonthlyDataset(Dataset[dict[str, torch.Tensor]]):
    """Sequences of monthly anomalies.

    All months of a sample are in the years of its split, so that splits share no month.
    Samples with a month that the files lack are left out.

    Attributes:
        last_months: the number of the last month that each sample reads.
        left_out: number of samples that are left out.

    Args:
        seq_len: months that are read.
        offset: months that are skipped between the last one read and the first one forecast; 0
            forecasts the month that follows.
        resolution: degrees of a cell.
        area: the region, or its JSON values.
        lead: months that are forecast, one after the other.
        split: ``train``, ``val`` or ``test``.
        data: the downloaded files, a file or a folder; None: $VRTSPIKE_ERA5, else ``data/era5``.
        years: first and last year of each split; None divides the whole years that there are.
        prepared: folder of prepared stores; None: ``prepared`` next to the files.
        store: manifest of a prepared store; ``resolution``, ``area``, ``data``, ``years`` and
            ``prepared`` are then ignored.

    Raises:
        ValueError: from pydantic, naming an invalid parameter.
        DataError: if the data cannot be used (see :mod:`vrtspike.sst.store`), or the split has no
            sample.
    """

    @validate_call
    def __init__(
        self,
        seq_len: Positive,
        offset: NonNegative = 0,
        resolution: PositiveFloat = 2.0,
        *,
        area: Area | None = None,
        lead: Positive = 1,
        split: Annotated[str, Field(pattern="^(train|val|test)$")] = "train",
        data: str | Path | None = None,
        years: Mapping[str, YearSpan] | None = None,
        prepared: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        self.seq_len = seq_len
        self.offset = offset
        self.lead = lead
        self.split = split
        if store is not None:
            self.store = PreparedStore(store)
        elif area is None:
            raise ConfigError("area: found None, expected a region, or the store to read")
        else:
            root = data or os.environ.get("VRTSPIKE_ERA5") or "data/era5"
            self.store = prepared_store(root, area, resolution, _spans(years), prepared)
        months = self.store.years.months(split)
        missing = set(self.store.manifest["missing"])
        # Months of a sample, counted from the last one that is read.
        past = np.arange(1 - seq_len, 1)
        future = np.arange(offset + 1, offset + lead + 1)
        self._steps = np.concatenate([past, future])
        possible = months[seq_len - 1 : max(0, len(months) - offset - lead)]
        self.last_months = [
            last for last in possible if missing.isdisjoint(map(month_name, last + self._steps))
        ]
        self.left_out = len(possible) - len(self.last_months)
        if not self.last_months:
            raise DataError(
                f"{self.store.path}: the years of {split} have {len(months)} months, "
                f"{len(missing.intersection(map(month_name, months)))} of them missing, but a "
                f"sample takes {seq_len + offset + lead} (seq_len {seq_len}, offset {offset}, lead "
                f"{lead}); give {split} more years or make samples shorter"
            )

    def __len__(self) -> int:
        """Return the number of samples: one for each month at which a sample can begin."""
        return len(self.last_months)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a sample.

        Returns:
            ``past`` (seq_len, H, W) and ``future`` (lead, H, W), float32 anomalies in standard
            deviations of their calendar months, 0 on land and ice; ``valid`` (lead, H, W), true
            where ``future`` is open sea; ``month``, the calendar month of the last one of ``past``,
            0 for January.
        """
        last = self.last_months[index]
        indices = last - self.store.first_month + self._steps
        anomalies = torch.tensor(self.store.standardized[indices].values)
        past, future = anomalies.split([self.seq_len, self.lead])
        return {
            "past": past.nan_to_num(),
            "future": future.nan_to_num(),
            "valid": future.isfinite(),
            "month": torch.tensor(last % MONTHS),
        }


def _spans(years: Mapping[str, YearSpan] | None) -> Years | None:
    """Return the first and last year of each split; None if no years are given."""
    if not years:
        return None
    return Years(**{name.upper(): span for name, span in years.items()})


class SSTObjective(Objective):
    """Objective of a forecast of anomalies, weighted by the area of open sea.

    The loss is the mean squared error of standardised anomalies. Validation measures kelvin.

    Args:
        weights: (H, W) shares of the cells in the sea's area (of a store); 0 on land, 1 in all.
        deviation: (12, H, W) kelvin, by which anomalies were divided (of a store).
        offset: months between the last one read and the first one forecast.
    """

    metric = RMSE
    lower_is_better = frozenset({RMSE})

    def __init__(self, weights: ArrayLike, deviation: ArrayLike, offset: int = 0) -> None:
        self._weights = torch.from_numpy(np.array(weights, np.float32))
        self._deviation = torch.from_numpy(np.array(deviation, np.float32))
        self._offset = offset

    @classmethod
    def of(cls, dataset: ERA5SSTMonthlyDataset) -> Self:
        """Return the objective of the samples of a data set."""
        store = dataset.store
        return cls(store.weights, store.fields["deviation"], dataset.offset)

    def prepare(self, batch: Mapping[str, Any], device: torch.device) -> SampleBatch:
        """Copy a batch to the device, and the weights and deviations with the first one."""
        self._weights = self._weights.to(device)
        self._deviation = self._deviation.to(device)
        return {name: values.to(device, non_blocking=True) for name, values in batch.items()}

    def forward(self, model: nn.Module, batch: SampleBatch) -> torch.Tensor:
        """Return anomalies (B, lead, H, W) in standard deviations."""
        output: torch.Tensor = model(batch["past"], batch["month"])
        return output

    def losses(
        self, output: torch.Tensor, batch: SampleBatch, step: int
    ) -> dict[str, torch.Tensor]:
        """Return ``mse``: the mean over samples and months of the area-weighted squared error."""
        # torch.where replaces a product, in which NaN on land would stay NaN, also in the gradient.
        error = torch.where(self._open_sea(batch) > 0, output - batch["future"], 0)
        return {"mse": self._mean(error.square(), batch).mean()}

    def metrics(self, output: torch.Tensor, batch: SampleBatch) -> list[dict[str, float]]:
        """Return ``rmse`` in kelvin and ``acc`` of each sample, over all its months together."""
        ahead = self._offset + torch.arange(1, 1 + output.shape[1], device=output.device)
        deviation = self._deviation[(batch["month"][:, None] + ahead) % MONTHS]
        future = batch["future"] * deviation
        forecast = output * deviation

        def mean(field: torch.Tensor) -> torch.Tensor:
            return self._mean(field, batch).mean(1)

        rmse = mean((forecast - future).square()).sqrt()
        norm = (mean(forecast.square()) * mean(future.square())).sqrt()
        correlation = mean(forecast * future) / norm.clamp_min(torch.finfo(norm.dtype).tiny)
        values = torch.stack([rmse, correlation], dim=1).tolist()
        return [{RMSE: rmse, CORRELATION: acc} for rmse, acc in values]

    def size(self, batch: SampleBatch) -> tuple[int, int]:
        """Return the numbers of samples, and of months read and forecast."""
        months = batch["past"].shape[1] + batch["future"].shape[1]
        return len(batch["past"]), len(batch["past"]) * months

    def _mean(self, field: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
        """Return the mean over the open sea: (B, lead, H, W) to (B, lead)."""
        weights = self._open_sea(batch)
        total = weights.sum((-2, -1)).clamp_min(torch.finfo(weights.dtype).tiny)
        return (torch.where(weights > 0, field, 0) * weights).sum((-2, -1)) / total

    def _open_sea(self, batch: SampleBatch) -> torch.Tensor:
        """Return weights (B, lead, H, W); without ``valid`` (a custom data set) all sea is open."""
        return self._weights * batch.get("valid", torch.ones_like(batch["future"]))
