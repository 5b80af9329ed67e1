"""Samples for training: some months of anomalies, those that follow, and the loss of a forecast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.utils.data import Dataset

from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.grid import Area
from vrtspike.sst.settings import CORRELATION, MONTHS, RMSE, Years, month_name, require_whole
from vrtspike.sst.store import PreparedStore, prepared_store

DATA_ROOT = "VRTSPIKE_ERA5"
"""Environment variable: the folder of the downloaded files."""

SampleBatch = dict[str, torch.Tensor]


class ERA5SSTMonthlyDataset(Dataset[dict[str, torch.Tensor]]):
    """Sequences of monthly anomalies.

    All months of a sample lie in the years of its split, so no split sees what another is for.
    Samples with a month that the files lack are left out; :attr:`left_out` counts them.

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
        prepared: folder of prepared stores; None: ``prepared`` beside the files.
        store: manifest of a prepared store, which is then read whatever ``resolution``, ``area``,
            ``data``, ``years`` and ``prepared`` say.

    Raises:
        ConfigError: if a number makes no sense.
        DataError: if the data cannot be used (see :mod:`vrtspike.sst.store`), or the split has no
            sample.
    """

    def __init__(
        self,
        seq_len: int,
        offset: int = 0,
        resolution: float = 2.0,
        *,
        area: Area | Mapping[str, Any] | None = None,
        lead: int = 1,
        split: str = "train",
        data: str | Path | None = None,
        years: Mapping[str, Any] | None = None,
        prepared: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        require_whole(1, seq_len=seq_len, lead=lead)
        require_whole(0, offset=offset)
        self.seq_len, self.offset, self.lead, self.split = seq_len, offset, lead, split
        if store is not None:
            self.store = PreparedStore(store)
        elif area is None:
            raise ConfigError("area: found None, expected a region, or the store to read")
        else:
            self.store = prepared_store(
                data or os.environ.get(DATA_ROOT) or "data/era5",
                area if isinstance(area, Area) else Area(**area),
                resolution,
                None if years is None else Years.of(years),
                prepared,
            )
        months, missing = self.store.years.months(split), {*self.store.manifest["missing"]}
        length = seq_len + offset + lead
        self._steps = np.r_[:seq_len, seq_len + offset : length]
        possible = months[: max(0, len(months) - length + 1)]
        self._firsts = [
            first for first in possible if missing.isdisjoint(map(month_name, first + self._steps))
        ]
        self.left_out = len(possible) - len(self._firsts)
        if not self._firsts:
            raise DataError(
                f"{self.store.path}: the years of {split} have {len(months)} months, "
                f"{len(missing.intersection(map(month_name, months)))} of them missing, but a "
                f"sample takes {length} (seq_len {seq_len}, offset {offset}, lead {lead}); give "
                f"{split} more years or make samples shorter"
            )

    def __len__(self) -> int:
        """Samples of the split: one for each month that one can begin with."""
        return len(self._firsts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A sample.

        Returns:
            ``past`` (seq_len, H, W) and ``future`` (lead, H, W), float32 anomalies in standard
            deviations of their calendar months, 0 on land and ice; ``valid`` (lead, H, W), true
            where that of ``future`` is open sea; ``month`` from 0 for January, of the last month of
            ``past``.
        """
        if not 0 <= index < len(self):
            raise IndexError(index)
        places = self._firsts[index] - self.store.first_month + self._steps
        anomalies = torch.tensor(self.store.standardised[places].values)
        past, future = anomalies.split([self.seq_len, self.lead])
        return {
            "past": past.nan_to_num(),
            "future": future.nan_to_num(),
            "valid": future.isfinite(),
            "month": torch.tensor(self.last_month(index) % MONTHS),
        }

    def last_month(self, index: int) -> int:
        """The number of the last month that a sample reads."""
        return self._firsts[index] + self.seq_len - 1


class SSTTask:
    """Forecast anomalies; every cell counts by the area of its open sea, land and ice not at all.

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

    def prepare(self, batch: Mapping[str, Any], device: torch.device) -> SampleBatch:
        """Bring the samples to the device, and with them what is the same for all of them."""
        self._weights, self._deviation = self._weights.to(device), self._deviation.to(device)
        return {name: values.to(device, non_blocking=True) for name, values in batch.items()}

    def forward(self, model: nn.Module, batch: SampleBatch) -> torch.Tensor:
        """(B, lead, H, W) anomalies in standard deviations."""
        output: torch.Tensor = model(batch["past"], batch["month"])
        return output

    def losses(
        self, output: torch.Tensor, batch: SampleBatch, step: int
    ) -> dict[str, torch.Tensor]:
        """``mse``: mean over samples and months of the area-weighted squared error."""
        # Chosen, not multiplied: what is not a number on land would stay so, also in the gradient.
        error = torch.where(self._open_sea(batch) > 0, output - batch["future"], 0)
        return {"mse": self._mean(error.square(), batch).mean()}

    def metrics(self, output: torch.Tensor, batch: SampleBatch) -> list[dict[str, float]]:
        """``rmse`` in kelvin and ``acc``, over all months of each sample together."""
        deviation = self._deviations(batch["month"], output.shape[1])
        future, forecast = batch["future"] * deviation, output * deviation
        error, together, own, other = (
            self._mean(product, batch).mean(1)
            for product in (
                (forecast - future).square(),
                forecast * future,
                forecast.square(),
                future.square(),
            )
        )
        correlation = together / (own * other).sqrt().clamp_min(torch.finfo(own.dtype).tiny)
        found = torch.stack([error.sqrt(), correlation], dim=1).tolist()
        return [{RMSE: rmse, CORRELATION: acc} for rmse, acc in found]

    def size(self, batch: SampleBatch) -> tuple[int, int]:
        """Samples, and months read and forecast."""
        months = batch["past"].shape[1] + batch["future"].shape[1]
        return len(batch["past"]), len(batch["past"]) * months

    def pictures(self, output: torch.Tensor, batch: SampleBatch) -> dict[str, NDArray[np.uint8]]:
        """None: maps are drawn in the evaluation."""
        return {}

    def _mean(self, field: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
        """(B, lead, H, W) to (B, lead): the mean over the open sea."""
        weights = self._open_sea(batch)
        total = weights.sum((-2, -1)).clamp_min(torch.finfo(weights.dtype).tiny)
        return (torch.where(weights > 0, field, 0) * weights).sum((-2, -1)) / total

    def _open_sea(self, batch: SampleBatch) -> torch.Tensor:
        """(B, lead, H, W) weights; samples of a data set of one's own may have no ``valid``."""
        return self._weights * batch.get("valid", torch.ones_like(batch["future"]))

    def _deviations(self, month: torch.Tensor, lead: int) -> torch.Tensor:
        """(B, lead, H, W) kelvin of the months forecast, by the month of the last one read."""
        ahead = torch.arange(1 + self._offset, 1 + self._offset + lead, device=month.device)
        return self._deviation[(month[:, None] + ahead) % MONTHS]
