"""The forecast of sea surface temperature as a task for the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from vrtspike.sst.settings import CORRELATION, MONTHS, RMSE
from vrtspike.sst.store import PreparedStore

SampleBatch = dict[str, torch.Tensor]


class SSTTask:
    """Forecast anomalies; every cell counts by the area of its open sea, land and ice not at all.

    The loss is the mean squared error of standardised anomalies. Validation measures kelvin.

    Args:
        weights: (H, W) shares of the cells in the sea's area; 0 on land, 1 in all.
        deviation: (12, H, W) kelvin, by which anomalies were divided.
        offset: months between the last one read and the first one forecast.
    """

    metric = RMSE
    lower_is_better = frozenset({RMSE})

    def __init__(self, weights: ArrayLike, deviation: ArrayLike, offset: int = 0) -> None:
        self._weights = torch.from_numpy(np.array(weights, np.float32))
        self._deviation = torch.from_numpy(np.array(deviation, np.float32))
        self._offset = offset

    @classmethod
    def of_store(cls, store: PreparedStore, offset: int = 0) -> SSTTask:
        """The task for prepared data."""
        return cls(store.weights.values, store.fields["deviation"].values, offset)

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
