"""The forecast of sea surface temperature as a task for the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from vrtspike.sst.months import MONTHS
from vrtspike.sst.names import CORRELATION, RMSE
from vrtspike.sst.store import PreparedStore

_SHOWN = 3.0
"""Anomaly in standard deviations at which a picture's colours end."""
_COLOURS = {
    -1.0: (5, 48, 97),
    -0.5: (67, 147, 195),
    0.0: (247, 247, 247),
    0.5: (214, 96, 77),
    1.0: (103, 0, 31),
}
_LAND = (160, 160, 160)
_MAGNIFIED = 320
"""Columns to which a small map is magnified."""

SampleBatch = dict[str, torch.Tensor]


class SSTTask:
    """Forecast anomalies; every cell counts by the area of its sea, land not at all.

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
        return cls(store.weights(), store.deviation, offset)

    def prepare(self, batch: Mapping[str, Any], device: torch.device) -> SampleBatch:
        """Bring the samples to the device, and with them what is the same for all of them."""
        if self._weights.device != device:
            self._weights = self._weights.to(device)
            self._deviation = self._deviation.to(device)
        return {name: values.to(device, non_blocking=True) for name, values in batch.items()}

    def forward(self, model: nn.Module, batch: SampleBatch) -> torch.Tensor:
        """(B, lead, H, W) anomalies in standard deviations."""
        output: torch.Tensor = model(batch["past"], batch["month"])
        return output

    def losses(
        self, output: torch.Tensor, batch: SampleBatch, step: int
    ) -> dict[str, torch.Tensor]:
        """``mse``: mean over samples and months of the area-weighted squared error."""
        return {"mse": self._mean(self._error(output, batch).square()).mean()}

    def variant(self, step: int) -> int:
        """No step differs from another."""
        return 0

    def metrics(self, output: torch.Tensor, batch: SampleBatch) -> list[dict[str, float]]:
        """``rmse`` in kelvin and ``acc``, over all months of each sample together."""
        deviation = self._deviations(batch["month"], output.shape[1])
        future = torch.where(self._sea, batch["future"], 0) * deviation
        forecast = torch.where(self._sea, output, 0) * deviation
        rmse = self._mean((forecast - future).square()).mean(1).sqrt()
        together, own, other = (
            self._mean(product).mean(1)
            for product in (forecast * future, forecast.square(), future.square())
        )
        correlation = together / (own * other).sqrt().clamp_min(torch.finfo(own.dtype).tiny)
        found = torch.stack([rmse, correlation], dim=1).tolist()
        return [{RMSE: error, CORRELATION: alike} for error, alike in found]

    def size(self, batch: SampleBatch) -> tuple[int, int]:
        """Samples, and months read and forecast."""
        months = batch["past"].shape[1] + batch["future"].shape[1]
        return len(batch["past"]), len(batch["past"]) * months

    def pictures(self, output: torch.Tensor, batch: SampleBatch) -> dict[str, NDArray[np.uint8]]:
        """The first month forecast: last month read, forecast, what came."""
        maps = (batch["past"][0, -1], output[0, 0], batch["future"][0, 0])
        sea = self._sea.cpu().numpy()
        return {"forecast": side_by_side([field.float().cpu().numpy() for field in maps], sea)}

    @property
    def _sea(self) -> torch.Tensor:
        return self._weights > 0

    def _error(self, output: torch.Tensor, batch: SampleBatch) -> torch.Tensor:
        # Chosen, not multiplied: what is not a number on land would stay so.
        return torch.where(self._sea, output - batch["future"], 0)

    def _mean(self, field: torch.Tensor) -> torch.Tensor:
        """(..., H, W) to (...): the mean over the sea."""
        return (field * self._weights).sum((-2, -1))

    def _deviations(self, month: torch.Tensor, lead: int) -> torch.Tensor:
        """(B, lead, H, W) kelvin of the months forecast, by the month of the last one read."""
        ahead = torch.arange(1 + self._offset, 1 + self._offset + lead, device=month.device)
        return self._deviation[(month[:, None] + ahead) % MONTHS]


def side_by_side(maps: list[NDArray[np.float32]], sea: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Maps (H, W) of anomalies in standard deviations as one picture, blue to red, land grey."""
    pictures = []
    for values in maps:
        share = np.clip(values / _SHOWN, -1, 1)
        channels = [
            np.interp(share, list(_COLOURS), [colour[i] for colour in _COLOURS.values()])
            for i in range(3)
        ]
        picture = np.where(sea[..., None], np.stack(channels, axis=-1), _LAND).round()
        pictures.append(np.pad(picture, ((0, 0), (0, 1), (0, 0)), constant_values=255))
    joined = np.concatenate(pictures, axis=1)[:, :-1].astype(np.uint8)
    times = max(1, _MAGNIFIED // sea.shape[1])
    return joined.repeat(times, axis=0).repeat(times, axis=1)
