"""Samples for training: some months of anomalies in, the following ones out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.errors import ConfigError, DataError
from vrtspike.sst.area import Area
from vrtspike.sst.cached import data_root, prepared_store
from vrtspike.sst.months import calendar_month, month_name
from vrtspike.sst.store import PreparedStore
from vrtspike.sst.years import Years


class ERA5SSTMonthlyDataset:
    """Sequences of monthly anomalies, read from the store sample by sample.

    All months of a sample lie in the years of its split, so no split sees what another is for.

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
        DataError: if the data cannot be used (see :mod:`vrtspike.sst.prepare`), or the split is
            shorter than a sample.
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
        for name, value, least in (
            ("seq_len", seq_len, 1),
            ("offset", offset, 0),
            ("lead", lead, 1),
        ):
            if type(value) is not int or value < least:
                raise ConfigError(f"{name}: found {value!r}, expected a whole number from {least}")
        self.seq_len, self.offset, self.lead, self.split = seq_len, offset, lead, split
        if store is None:
            if area is None:
                raise ConfigError("area: found None, expected a region, or the store to read")
            self.store = prepared_store(
                data or data_root(),
                area if isinstance(area, Area) else Area.from_json(area),
                resolution,
                None if years is None else Years.from_json(years),
                prepared,
                tell=print,
            )
        else:
            self.store = PreparedStore(store)
        months = self.store.years.months(split)
        self._first = months[0]
        self._length = len(months) - self.span + 1
        if self._length < 1:
            raise DataError(
                f"{self.store.path}: the years of {split} have {len(months)} months, but a sample "
                f"takes {self.span} (seq_len {seq_len}, offset {offset}, lead {lead}); give "
                f"{split} more years or make samples shorter"
            )

    @property
    def span(self) -> int:
        """Months from the first that is read to the last that is forecast."""
        return self.seq_len + self.offset + self.lead

    @property
    def mask(self) -> NDArray[np.bool_]:
        """(H, W) cells that are sea."""
        return self.store.sea

    def __len__(self) -> int:
        """Samples of the split: one for each month that one can begin with."""
        return self._length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A sample.

        Returns:
            ``past`` (seq_len, H, W) and ``future`` (lead, H, W), float32 anomalies in standard
            deviations of their calendar months, 0 on land; ``month`` from 0 for January, of the
            last month of ``past``; ``index`` of the sample.
        """
        if not 0 <= index < self._length:
            raise IndexError(index)
        first = self._first + index
        anomaly = torch.from_numpy(self.store.read("anomaly", first, first + self.span))
        return {
            "past": anomaly[: self.seq_len].clone(),
            "future": anomaly[self.span - self.lead :].clone(),
            "month": torch.tensor(calendar_month(first + self.seq_len - 1)),
            "index": torch.tensor(index),
        }

    def forecast_month(self, index: int, lead: int) -> int:
        """The number of a month that a sample forecasts; ``lead`` from 0 for the first one."""
        return self._first + index + self.span - self.lead + lead

    def describe(self, index: int) -> str:
        """A sample's months in words.

        ``1980-01 to 1980-06, then 1980-07`` reads six months and forecasts one.
        """
        first = self._first + index
        last = first + self.span - 1
        future = " to ".join(dict.fromkeys(map(month_name, (last - self.lead + 1, last))))
        return f"{month_name(first)} to {month_name(first + self.seq_len - 1)}, then {future}"
