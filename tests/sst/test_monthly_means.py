"""Recognition of monthly means by the attributes of a field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray

from vrtspike.sst.netcdf import require_monthly_means
from vrtspike.system.errors import DataError


def field(first: str, **attributes: str) -> xarray.DataArray:
    start = np.datetime64(first, "ns")
    months = (start.astype("datetime64[M]") + np.arange(3)).astype("datetime64[ns]")
    times = months + (start - start.astype("datetime64[M]"))
    return xarray.DataArray(np.zeros(3), {"time": times}, ["time"], "sst", attributes)


@pytest.mark.parametrize(
    ("first", "attributes", "words"),
    [
        ("1979-01-01", {"GRIB_stepType": "instant"}, "GRIB_stepType 'instant'"),
        ("1979-01-01", {"GRIB_stepType": "max"}, "GRIB_stepType 'max'"),
        ("1979-01-01T12", {"GRIB_stepType": "avgua"}, "times at 12:00 of the first of a month"),
        ("1979-01-01T06", {}, "times at 6:00 of the first of a month"),
        ("1979-01-01", {"cell_methods": "time: point"}, "cell_methods 'time: point'"),
        (
            "1979-01-01",
            {"cell_methods": "area: mean where sea time: maximum within days time: mean over days"},
            "time: maximum within days",
        ),
        (
            "1979-01-01",
            {"cell_methods": "time: mean within years time: mean over years"},
            "over years",
        ),
    ],
)
def test_fields_that_are_no_monthly_means_are_refused(first, attributes, words):
    with pytest.raises(DataError, match=rf"a.nc: sst from 1979-01 on has .*{words}.*whole months"):
        require_monthly_means(field(first, **attributes), "time", Path("a.nc"))


@pytest.mark.parametrize(
    ("first", "attributes"),
    [
        ("1979-01-01", {}),
        ("1979-01-16T12", {}),
        ("1979-01-01", {"GRIB_stepType": "avgua"}),
        ("1979-01-01", {"GRIB_stepType": "avgad"}),
        ("1979-01-01T12", {"cell_methods": "time: mean (interval: 1 hour)"}),
        ("1979-01-16T12", {"cell_methods": "area: mean where sea time: mean"}),
        ("1979-01-16", {"cell_methods": "lat: lon: point time: mean"}),
        ("1979-01-16", {"cell_methods": "time: mean within days time: mean over days"}),
    ],
)
def test_monthly_means_of_many_products_are_accepted(first, attributes):
    require_monthly_means(field(first, **attributes), "time", Path("a.nc"))
