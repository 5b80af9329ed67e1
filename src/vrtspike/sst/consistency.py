"""Checks of the months of a region: plausible temperatures and ice, and the same sea."""

from __future__ import annotations

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.downloads import ICE, SST
from vrtspike.sst.grid import CELLS, Area
from vrtspike.sst.months import MONTHS, month_name
from vrtspike.system.errors import DataError, first_few

_LIMITS = {
    SST: ("temperatures", (250.0, 330.0), "kelvin"),
    # Packed numbers may miss 0 and 1 by a little.
    ICE: ("concentrations of ice", (-0.01, 1.01), "a share (are they per cent?)"),
}
"""Name, plausible range and unit of each variable."""
ICE_SHARE = 0.15
"""Concentration from which a cell counts as covered by ice, as is usual for its extent."""
MAX_CHANGED_SEA = 0.01
"""Largest share of the sea's cells that may have no value in a month, or a value on land."""
MAX_UNKNOWN_ICE = 0.1
"""Largest share of the sea's cells without a concentration; coasts of two variables may differ."""
MAX_PATTERN_K = 2.0
"""Largest deviation of half of the cells of a month in kelvin, if the other limit is lower."""
MAX_PATTERN_FACTOR = 5.0
"""Largest deviation of half of the cells of a month by that of the median month."""
MIN_PATTERN_CELLS = 30
"""Smallest number of sea cells for this check; half of fewer cells can deviate by chance."""
_ADVICE = (
    "A part is missing, or rows or columns are flipped or turned: download the month again, or "
    "take it out"
)


def check_months(stored: xarray.Dataset, sources: xarray.Dataset, area: Area) -> list[str]:
    """Check that temperatures and ice of every month are those of the same sea.

    Args:
        stored: ``sst`` and perhaps ``siconc`` by (time, row, column).
        sources: ``source`` and perhaps ``ice_source`` by time, missing where no file has the month.
        area: region of the data.

    Returns:
        Notes on unusual data that can be used.

    Raises:
        DataError: if a month contradicts the others.
    """
    title = f"in area {area.name}"
    # Computed together, so that large data are read once.
    summary = _summary(stored).compute()
    _require_range(summary, SST, sources.source, title)
    if ICE in stored:
        _require_range(summary, ICE, sources.ice_source, title)
        _require_known_ice(summary, sources.ice_source, title)
    changes = _changes(stored, summary).compute()
    _require_same_sea(changes, sources.source, title)
    _require_same_pattern(changes, sources.source, title)
    return _small_changes(changes, title)


def _summary(stored: xarray.Dataset) -> xarray.Dataset:
    """Return the values of every month, and of every cell and calendar month."""
    sst = stored[SST]
    is_sea = sst.notnull()
    summary = {
        f"{SST}_min": sst.min(CELLS),
        f"{SST}_max": sst.max(CELLS),
        "sea_cells": is_sea.sum(CELLS),
        "sea_months": is_sea.sum("time"),
        "mean": sst.groupby(_calendar(sst)).mean(),
    }
    if ICE in stored:
        ice = stored[ICE]
        summary[f"{ICE}_min"] = ice.min(CELLS)
        summary[f"{ICE}_max"] = ice.max(CELLS)
        summary["unknown_ice"] = (is_sea & ice.isnull()).sum(CELLS)
    return xarray.Dataset(summary)


def _calendar(field: xarray.DataArray) -> xarray.DataArray:
    """Return the calendar month of each month, 0 for January."""
    return (field.time % MONTHS).rename("calendar")


def _require_range(
    summary: xarray.Dataset, name: str, source: xarray.DataArray, title: str
) -> None:
    """Check that the values of every month are within the limits of their variable."""
    quantity, limits, unit = _LIMITS[name]
    lows = summary[f"{name}_min"].values
    highs = summary[f"{name}_max"].values
    for month in np.flatnonzero((lows < limits[0]) | (highs > limits[1])):
        raise DataError(
            f"{source.values[month]}: {_month(summary, month)} {title} has {quantity} from "
            f"{lows[month]:g} to {highs[month]:g}, expected {unit} within {limits}; take the file "
            "as it was downloaded"
        )


def _require_known_ice(summary: xarray.Dataset, source: xarray.DataArray, title: str) -> None:
    """Check that all sea has a concentration of ice, also open sea."""
    unknown = summary["unknown_ice"].values
    cells = summary["sea_cells"].values
    delivered = source.notnull().values
    for month in np.flatnonzero(delivered & (unknown > MAX_UNKNOWN_ICE * cells)):
        raise DataError(
            f"{source.values[month]}: {ICE} of {_month(summary, month)} {title} is missing in "
            f"{unknown[month]} of {cells[month]} cells of sea; expected 0 where there is no ice: "
            "write 0 into the missing values of the sea, or take the ice out (then sea below the "
            "freezing point counts as ice)"
        )


def _changes(stored: xarray.Dataset, summary: xarray.Dataset) -> xarray.Dataset:
    """Return the differences of each month from the sea of most months.

    Returns:
        ``lost``: cells of sea without a value; ``new``: cells of land with one; ``sea``: cells of
        sea; ``pattern``: kelvin by which half of the cells deviate from the same calendar month of
        other years, a uniform deviation left out.
    """
    sst = stored[SST]
    has_value = sst.notnull()
    present = summary["sea_cells"] > 0
    sea = 2 * summary["sea_months"] > present.sum()
    lost = sea & ~has_value & present
    if ICE in stored:
        # Some products have no temperature under ice, where it is masked anyway.
        lost = lost & ~(stored[ICE] >= ICE_SHARE)
    anomaly = sst - summary["mean"].sel(calendar=_calendar(sst)).drop_vars("calendar")
    anomaly = anomaly.where(sea)
    changes = {
        "lost": lost.sum(CELLS),
        "new": (has_value & ~sea).sum(CELLS),
        "sea": sea.sum(),
        "pattern": abs(anomaly - anomaly.mean(CELLS)).median(CELLS),
    }
    return xarray.Dataset(changes)


def _require_same_sea(changes: xarray.Dataset, source: xarray.DataArray, title: str) -> None:
    """Check that land and sea of every month are those of most months."""
    lost = changes["lost"].values
    new = changes["new"].values
    cells = changes["sea"].values
    months = np.flatnonzero(lost + new > MAX_CHANGED_SEA * np.maximum(cells, 1))
    if months.size:
        month = months[0]
        raise DataError(
            f"{source.values[month]}: {_month(changes, month)} {title} has not the sea of most "
            f"months: {lost[month]} of {cells} cells have no temperature, {new[month]} of land "
            f"have one{_others(changes, months)}; expected the same land in every month. {_ADVICE}"
        )


def _require_same_pattern(changes: xarray.Dataset, source: xarray.DataArray, title: str) -> None:
    """Check that warm and cold parts of every month are those of the same month of other years."""
    kelvin = changes["pattern"].values
    if changes["sea"] < MIN_PATTERN_CELLS or np.isnan(kelvin).all():
        return
    limit = max(MAX_PATTERN_K, MAX_PATTERN_FACTOR * float(np.nanmedian(kelvin)))
    months = np.flatnonzero(kelvin > limit)
    if months.size:
        month = months[0]
        raise DataError(
            f"{source.values[month]}: {_month(changes, month)} {title} deviates by "
            f"{kelvin[month]:.1f} K or more in half of the cells from the same month of other years"
            f"{_others(changes, months)}, expected less than {limit:.1f} K. {_ADVICE}"
        )


def _small_changes(changes: xarray.Dataset, title: str) -> list[str]:
    """Return a note where a few cells are not sea in every month."""
    differing = (changes["lost"] + changes["new"]).values
    indices = np.flatnonzero(differing)
    if not indices.size:
        return []
    months = first_few([_month(changes, index) for index in indices], 12)
    return [
        f"{title}, the sea of {len(indices)} months differs by up to {differing.max()} of "
        f"{changes['sea'].item()} cells, which count as land: {months}"
    ]


def _others(fields: xarray.Dataset, months: NDArray[np.intp]) -> str:
    names = [_month(fields, month) for month in months[1:]]
    if not names:
        return ""
    return f" (so do {first_few(names)})"


def _month(fields: xarray.Dataset, month: np.intp) -> str:
    return month_name(int(fields.time[month]))
