"""The loss of a forecast, and its metrics in validations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
from vrtspike.sst.months import MONTHS
from vrtspike.sst.settings import CORRELATION, RMSE
from vrtspike.training.objectives import Objective

SampleBatch = dict[str, torch.Tensor]


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
    def from_dataset(cls, dataset: ERA5SSTMonthlyDataset) -> Self:
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

    def batch_counts(self, batch: SampleBatch) -> tuple[int, int]:
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
