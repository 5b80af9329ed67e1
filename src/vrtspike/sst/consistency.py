"""Checks of the months of a region: temperatures, ice, and a sea that stays where it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray
from numpy.typing import NDArray

from vrtspike.sst.grid import CELLS, Area
from vrtspike.sst.settings import ICE, SST, month_name
from vrtspike.system.errors import DataError, first_few

_PLAUSIBLE_K = (250.0, 330.0)
_ICE = (-0.01, 1.01)
"""Limits of a concentration; packed numbers may miss 0 and 1 by a little."""
ICE_SHARE = 0.15
"""Concentration from which a cell counts as covered by ice, as is usual for its extent."""
MAX_CHANGED_SEA = 0.01
"""Largest share of the sea's cells that may have no value in a month, or a value on land."""
MAX_UNKNOWN_ICE = 0.1
"""Largest share of the sea's cells without a concentration; coasts of two variables may differ."""


def check_months(stored: xarray.Dataset, sources: xarray.Dataset, area: Area) -> list[str]:
    """See that temperatures and ice of every month are those of the same sea.

    Args:
        stored: ``sst`` and perhaps ``siconc`` by (time, row, column).
        sources: ``source`` and perhaps ``ice_source`` by time, missing where no file has the month.
        area: the region.

    Returns:
        What is unusual, but can be used.

    Raises:
        DataError: naming file and month, what was found and expected.
    """
    title = f"in area {area.name}"
    _require_range(stored[SST], sources.source, _PLAUSIBLE_K, f"{title} has temperatures", "kelvin")
    if ICE in stored:
        ice_title = f"{title} has concentrations of ice"
        _require_range(
            stored[ICE], sources.ice_source, _ICE, ice_title, "a share of 1 (are they per cent?)"
        )
        _require_known_ice(stored, sources, title)
    return _check_sea(stored, sources.source, title)


def _require_range(
    field: xarray.DataArray,
    source: xarray.DataArray,
    limits: tuple[float, float],
    title: str,
    unit: str,
) -> None:
    """See that the values of every month lie within limits."""
    lows, highs = field.min(CELLS).values, field.max(CELLS).values
    for place in np.flatnonzero((lows < limits[0]) | (highs > limits[1])):
        raise DataError(
            f"{_file(source, place)}: {month_name(int(field.time[place]))} {title} from "
            f"{lows[place]:g} to {highs[place]:g}, expected {unit} within {limits}; take the file "
            "as it was downloaded"
        )


def _require_known_ice(stored: xarray.Dataset, sources: xarray.Dataset, title: str) -> None:
    """See that the sea has a concentration of ice also where there is none."""
    is_sea = stored[SST].notnull()
    unknown = (is_sea & stored[ICE].isnull()).sum(CELLS).values
    cells = is_sea.sum(CELLS).values
    delivered = sources.ice_source.notnull().values
    for place in np.flatnonzero(delivered & (unknown > MAX_UNKNOWN_ICE * cells)):
        raise DataError(
            f"{_file(sources.ice_source, place)}: {ICE} of {month_name(int(stored.time[place]))} "
            f"{title} is missing in {unknown[place]} of {cells[place]} cells of sea; expected 0 "
            "where there is no ice: write 0 into the missing values of the sea, or take the ice "
            f"out (then sea below the freezing point counts as ice)"
        )


def _check_sea(stored: xarray.Dataset, source: xarray.DataArray, title: str) -> list[str]:
    """Compare the sea of every month with that of most months."""
    known = stored[SST].notnull()
    present = known.any(CELLS).compute()
    sea = (2 * known.sum("time") > present.sum("time")).compute()
    lost = sea & ~known
    if ICE in stored:
        # Some products have no temperature under ice, where it is masked anyway.
        lost = lost & ~(stored[ICE] >= ICE_SHARE)
    lost_cells = lost.sum(CELLS).where(present, 0).values
    new_cells = (known & ~sea).sum(CELLS).values
    cells = int(sea.sum())
    differing = np.flatnonzero(lost_cells + new_cells)
    if not differing.size:
        return []
    severe = np.flatnonzero(lost_cells + new_cells > MAX_CHANGED_SEA * max(cells, 1))
    if severe.size:
        place = severe[0]
        raise DataError(
            f"{_file(source, place)}: {month_name(int(stored.time[place]))} {title} has not the "
            f"sea of most months: {lost_cells[place]} of {cells} cells have no temperature, "
            f"{new_cells[place]} of land have one{_others(stored, severe)}; expected the same land "
            "in every month: a part is missing, or rows or columns are flipped or turned; "
            "download the month again"
        )
    months = first_few([month_name(int(stored.time[place])) for place in differing], 12)
    return [
        f"{title}, the sea of {len(differing)} months differs by up to "
        f"{(lost_cells + new_cells).max()} of {cells} cells, which count as land: {months}"
    ]


def _others(stored: xarray.Dataset, places: NDArray[np.intp]) -> str:
    names: Sequence[str] = [month_name(int(stored.time[place])) for place in places[1:]]
    if not names:
        return ""
    return f" (so do {first_few(names)})"


def _file(source: xarray.DataArray, place: np.intp) -> str:
    return str(source.values[place])
