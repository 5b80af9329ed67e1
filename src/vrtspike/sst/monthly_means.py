"""Signs in NetCDF files that a field is no mean of a whole month."""

from __future__ import annotations

import re
from pathlib import Path

import xarray

from vrtspike.sst.settings import month_name, month_number
from vrtspike.system.errors import DataError

_TIMES = ("time", "valid_time")
_METHODS = re.compile(r"((?:\w+: )+)(\w+)((?: (?:within|over|where) \w+)*)")
"""Axes, statistic and what it is over, by the conventions CF."""


def require_monthly_means(field: xarray.DataArray, time: str, path: Path) -> None:
    """Refuse a field whose description contradicts its use.

    Args:
        field: field with its attributes, and dates at ``time``.
        time: name of the dimension.
        path: the file, for messages.

    Raises:
        DataError: naming file, month, what was found and what was expected.
    """
    for fault in (_step_type(field), _cell_method(field, time), _hour_of_day(field, time)):
        if fault:
            dates = field[time]
            first = month_name(month_number(int(dates.dt.year[0]), int(dates.dt.month[0])))
            raise DataError(
                f"{path}: {field.name} from {first} on has {fault}, expected means of whole "
                "months: download 'Monthly averaged reanalysis', not hourly data and not the one "
                "by hour of day"
            )


def _step_type(field: xarray.DataArray) -> str:
    """Describe the steps in a file made from GRIB."""
    step = field.attrs.get("GRIB_stepType")
    if step is None or str(step).startswith("avg"):
        return ""
    return f"GRIB_stepType {step!r}"


def _cell_method(field: xarray.DataArray, time: str) -> str:
    """Return a statistic over the time that is no mean of consecutive days."""
    methods = str(field.attrs.get("cell_methods", ""))
    for axes, method, span in _METHODS.findall(methods):
        of_time = {time, *_TIMES} & set(axes.replace(":", "").split())
        if of_time and (method != "mean" or "over years" in span):
            return f"cell_methods {methods!r}"
    return ""


def _hour_of_day(field: xarray.DataArray, time: str) -> str:
    """Return an hour at the first day of each month, as means of one hour of each day have it."""
    if "cell_methods" in field.attrs:
        return ""
    dates = field[time].dt
    first_days = bool((dates.day == 1).all())
    hours = sorted({int(hour) for hour in dates.hour.values})
    if first_days and hours != [0]:
        return f"times at {', '.join(f'{hour}:00' for hour in hours[:3])} of the first of a month"
    return ""
