"""Samples for training: sequences of monthly anomalies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field, validate_call
from torch.utils.data import Dataset

from vrtspike.config.fields import NonNegative, Positive, PositiveFloat
from vrtspike.sst.grid import Area
from vrtspike.sst.months import MONTHS, month_name
from vrtspike.sst.preparation import prepared_store
from vrtspike.sst.settings import Years, YearSpan
from vrtspike.sst.store import PreparedStore
from vrtspike.system.errors import ConfigError, DataError


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
        DataError: if the data cannot be used (see :mod:`vrtspike.sst.preparation`), or the split
            has no sample.
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
