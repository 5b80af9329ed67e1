"""Implausible months: coasts, temperatures and ice that differ from other months."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray

from tests.sst.conftest import changed
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.grid import Area
from vrtspike.sst.preparation import prepare
from vrtspike.sst.settings import Years
from vrtspike.sst.store import PreparedStore
from vrtspike.system.errors import DataError

GLOBE = Globe(first_year=2000, years=6, step=10.0, south=-70.0)
YEARS = Years(TRAIN=(2000, 2003), VAL=(2004, 2004), TEST=(2005, 2005))
WORLD = Area("World", lon=[-180, 180], lat=[-70, 70])
OPEN_SEA = Area("Sea", lon=[160, 240], lat=[-40, 40])
"""Without land."""
FEW_CELLS = Area("Few", lon=[160, 200], lat=[-50, -10])
Change = Callable[[xarray.DataArray], xarray.DataArray]


def prepared(folder: Path, area: Area = WORLD) -> PreparedStore:
    return prepare(folder, area, 10, folder / "out" / "p.json", YEARS)


def with_changes(folder: Path, months: slice, **changes: Change) -> None:
    """A globe whose fields were changed in some months."""

    def change(dataset: xarray.Dataset) -> xarray.Dataset:
        for name, function in changes.items():
            field = dataset[name].copy()
            field[months] = function(field[months]).values
            dataset[name] = field
        return dataset

    changed(write_example(folder, GLOBE), change)


def flipped(field: xarray.DataArray) -> xarray.DataArray:
    return field.isel(latitude=slice(None, None, -1))


def turned(field: xarray.DataArray) -> xarray.DataArray:
    return field.roll(longitude=18)


def half_warmer(field: xarray.DataArray) -> xarray.DataArray:
    return field + 8.0 * np.sign(field.latitude + 30)


def half(field: xarray.DataArray) -> xarray.DataArray:
    return field.where(field.longitude < 180)


@pytest.mark.parametrize("change", [flipped, turned, half])
@pytest.mark.parametrize("months", [slice(45, 46), slice(45, None)])
def test_a_month_with_another_sea_is_named(tmp_path, change, months):
    with_changes(tmp_path, months, sst=change, siconc=change)
    words = r"sst.nc: 2003-10 in area World has not the sea of most months: \d+ of \d+ cells "
    with pytest.raises(DataError, match=words) as caught:
        prepared(tmp_path)
    assert ("so do 2003-11, 2003-12" in str(caught.value)) == (months.stop is None)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_flipped_sea_without_coasts_is_named(tmp_path):
    with_changes(tmp_path, slice(31, 32), sst=flipped)
    words = r"sst.nc: 2002-08 in area Sea deviates by \d\.\d K or more in half of the cells"
    with pytest.raises(DataError, match=words):
        prepared(tmp_path, OPEN_SEA)


def test_a_month_with_values_on_land_is_named(tmp_path):
    with_changes(tmp_path, slice(31, 32), sst=lambda field: field.fillna(280.0))
    words = (
        r"sst.nc: 2002-08 in area World .*: 0 of \d+ cells have no temperature, \d+ of land have"
    )
    with pytest.raises(DataError, match=words):
        prepared(tmp_path)


@pytest.mark.parametrize(
    ("area", "change"),
    [(OPEN_SEA, lambda field: field + 6.0), (FEW_CELLS, half_warmer)],
    ids=["all of it warmer", "few cells"],
)
def test_a_month_that_deviates_by_chance_is_accepted(tmp_path, area, change):
    with_changes(tmp_path, slice(31, 32), sst=change)
    prepared(tmp_path, area)


def test_a_sea_with_a_trend_and_an_oscillation_is_accepted(tmp_path, capsys):
    write_example(tmp_path, GLOBE)
    for area in (WORLD, OPEN_SEA):
        prepared(tmp_path, area)
    assert capsys.readouterr().out == ""


def test_ice_in_per_cent_is_refused(tmp_path):
    with_changes(tmp_path, slice(40, None), siconc=lambda field: 100 * field)
    words = r"sst.nc: 2003-\d\d in area World has concentrations of ice from 0 to \d+.*per cent"
    with pytest.raises(DataError, match=words):
        prepared(tmp_path)


@pytest.mark.parametrize("area", [WORLD, OPEN_SEA])
def test_missing_concentrations_over_open_sea_are_refused(tmp_path, area):
    with_changes(tmp_path, slice(None), siconc=lambda field: field.where(field > 0))
    words = rf"sst.nc: siconc of 2000-01 in area {area.name} is missing in .* expected 0 where"
    with pytest.raises(DataError, match=words):
        prepared(tmp_path, area)


def test_packed_ice_may_miss_its_limits_by_a_little(tmp_path):
    with_changes(tmp_path, slice(None), siconc=lambda field: field + 1e-4)
    prepared(tmp_path)


def test_temperatures_may_be_missing_under_ice(tmp_path):
    def without_ice(dataset: xarray.Dataset) -> xarray.Dataset:
        return dataset.assign(sst=dataset["sst"].where(~(dataset["siconc"] >= 0.15)))

    changed(write_example(tmp_path, GLOBE), without_ice)
    store = prepared(tmp_path)
    assert store.fields["sea"].values.any()
    assert np.isfinite(store.anomalies.values).any()
