"""Prepared store: anomalies from the training years, ice mask, gaps and chunks."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import xarray

from tests.sst.conftest import GLOBE, PACIFIC, YEARS, cell_means, changed, series_store
from vrtspike.data.raw.versions import changed_files
from vrtspike.sst import store as store_module
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.grid import Area, Grid
from vrtspike.sst.months import month_number
from vrtspike.sst.preparation import DEVIATION_FLOOR_K, prepare, prepared_store, store_digest
from vrtspike.sst.settings import Years
from vrtspike.sst.store import ICE_LIMIT_K, PreparedStore
from vrtspike.system.errors import DataError

SMALL = Globe(first_year=2000, years=5, step=30.0)
SMALL_YEARS = Years(TRAIN=(2000, 2002), VAL=(2003, 2003), TEST=(2004, 2004))
WORLD = Area("World", lon=[0, 360], lat=[-60, 60])
SERIES_YEARS = Years(TRAIN=(2000, 2009), VAL=(2010, 2010), TEST=(2011, 2011))


def regridded(field: np.ndarray) -> np.ndarray:
    """(108, 10, 20) on the fixture's region."""
    return cell_means(field, GLOBE.latitudes, GLOBE.longitudes, Grid(PACIFIC, 8))


def header(store: PreparedStore) -> dict:
    names = ("area", "resolution", "years", "first_month", "months")
    return {name: store.manifest[name] for name in names}


def test_temperatures_and_ice_are_those_of_the_region(store):
    kelvin, ice = (regridded(field).astype(np.float32) for field in (GLOBE.kelvin(), GLOBE.ice()))
    assert store.first_month == month_number(1980, 1)
    np.testing.assert_array_equal(store.fields["sst"].values, kelvin)
    np.testing.assert_array_equal(store.fields["siconc"].values, ice)
    np.testing.assert_array_equal(store.fields["sea"].values, np.isfinite(kelvin).all(axis=0))
    assert 0.5 < store.fields["sea"].values.mean() < 0.97


def test_climatology_deviation_and_trend_are_those_of_the_training_years(store):
    sea = store.fields["sea"].values
    mean, deviation, trend, middle = (
        store.fields[name].values for name in ("climatology", "deviation", "trend", "middle")
    )
    training = regridded(GLOBE.kelvin())[:60, sea].reshape(5, 12, -1)
    np.testing.assert_allclose(mean[:, sea], training.mean(axis=0), rtol=1e-6)
    spread = np.maximum(training.std(axis=0), DEVIATION_FLOOR_K)
    np.testing.assert_allclose(deviation[:, sea], spread, rtol=1e-3)
    anomaly = (training - training.mean(axis=0)).reshape(60, -1)
    slope, offset = np.polyfit(np.arange(60) / 12, anomaly, 1)
    np.testing.assert_allclose(trend[sea], slope, atol=2e-4)
    np.testing.assert_allclose(middle[sea], store.first_month - 12 * offset / slope, atol=0.1)
    assert (deviation[:, ~sea] == 1).all()
    assert (trend[~sea] == 0).all()
    assert np.isnan(mean[:, ~sea]).all()


@pytest.mark.parametrize("source", ["siconc", "temperature"])
def test_ice_is_masked_and_its_share_of_months_decides(tmp_path, source):
    """Cells under ice: never, in one July, in most Julys, always."""
    random = np.random.default_rng(0)
    kelvin = 280 + random.normal(size=(144, 4))
    frozen = np.zeros((144, 4), bool)
    frozen[6, 1] = frozen[6:84:12, 2] = True
    frozen[:, 3] = True
    if source == "siconc":
        store = series_store(kelvin, tmp_path, SERIES_YEARS, siconc=0.15 * frozen)
    else:
        kelvin[frozen] = ICE_LIMIT_K - 0.1
        store = series_store(kelvin, tmp_path, SERIES_YEARS)
    valid = np.isfinite(store.anomalies[:, 0])
    expected = ~frozen
    # In seven of ten training Julys there is ice: no July is forecast, also not one without.
    expected[6::12, 2] = False
    np.testing.assert_array_equal(valid, expected)
    assert store.manifest["ice"] == (
        "siconc" if source == "siconc" else f"sst below {ICE_LIMIT_K} K"
    )
    # The July without ice, and nothing else, makes the climatology of the second cell.
    july = kelvin[18:120:12, 1].mean()
    assert store.fields["climatology"].values[6, 0, 1] == pytest.approx(july, rel=1e-6)


def test_missing_months_stay_missing(tmp_path):
    clean = series_store(_noise(), tmp_path, SERIES_YEARS)
    empty = xarray.DataArray(np.arange(144) == 5, dims="valid_time")
    changed(tmp_path / "sst.nc", lambda d: d.where(~empty).drop_isel(valid_time=[3, 130]))
    store = prepare(tmp_path, clean.grid.area, 4, tmp_path / "out" / "p.json", SERIES_YEARS)
    assert store.manifest["missing"] == ["2000-04", "2000-06", "2010-11"]
    assert store.manifest["months"] == 144
    valid = np.isfinite(store.anomalies.values)
    assert not valid[[3, 5, 130]].any()
    assert valid.sum() == (144 - 3) * store.fields["sea"].values.sum()
    april = clean.fields["sst"].values[15:120:12].mean(axis=0)
    np.testing.assert_allclose(store.fields["climatology"].values[3], april, rtol=1e-6)


def test_months_without_ice_are_missing_where_others_have_it(tmp_path):
    clean = series_store(_noise(), tmp_path, SERIES_YEARS, siconc=np.zeros((144, 3)))
    ice = changed(tmp_path / "sst.nc", lambda d: d[["siconc"]].isel(valid_time=slice(1, 143)))
    ice.rename(tmp_path / "ice.nc")
    series_store(_noise(), tmp_path, SERIES_YEARS)
    store = prepare(tmp_path, clean.grid.area, 4, tmp_path / "out" / "p.json", SERIES_YEARS)
    assert store.manifest["missing"] == ["2000-01", "2011-12"]
    assert np.isnan(store.anomalies.values[[0, 143]]).all()


def _noise() -> np.ndarray:
    return 290 + np.random.default_rng(1).normal(size=(144, 3))


def test_held_out_years_do_not_change_the_fit(tmp_path):
    kelvin = _noise()
    (tmp_path / "b").mkdir()
    one = series_store(kelvin, tmp_path, SERIES_YEARS)
    kelvin[120:] += 5
    two = series_store(kelvin, tmp_path / "b", SERIES_YEARS)
    for name in ("climatology", "deviation", "trend", "middle"):
        np.testing.assert_array_equal(one.fields[name].values, two.fields[name].values)
    assert one.digest != two.digest


def test_large_data_are_prepared_and_read_by_chunks(download, store, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 0)
    again = prepare(download, PACIFIC, 8, tmp_path / "p.json", YEARS)
    for name in store.fields:
        np.testing.assert_allclose(
            again.fields[name].values, store.fields[name].values, rtol=1e-5, atol=1e-5
        )
    np.testing.assert_allclose(again.standardized, store.standardized, atol=2e-3)
    assert again.standardized.chunks is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "p.nc"]


def test_a_few_cells_without_a_value_in_some_month_are_no_sea(tmp_path, capsys):
    kelvin = 290 + np.random.default_rng(1).normal(size=(144, 120))
    kelvin[7, 0] = np.nan
    store = series_store(kelvin, tmp_path, SERIES_YEARS, step=3)
    assert store.fields["sea"].values.tolist() == [[False, *[True] * 119]] * 2
    assert store.manifest["sea_cells"] == 238
    assert (
        "differs by up to 2 of 240 cells, which count as land: 2000-08" in capsys.readouterr().out
    )


def test_a_small_deviation_is_raised_to_the_floor(tmp_path):
    store = series_store(np.full((144, 2), 285.0), tmp_path, SERIES_YEARS)
    assert store.fields["deviation"].values == pytest.approx(DEVIATION_FLOOR_K)
    assert np.abs(store.standardized).max() < 1e-3


def test_the_manifest_describes_the_data(store, download):
    manifest = store.manifest
    assert manifest["years"] == YEARS.model_dump(mode="json")
    assert manifest["months"] == 108
    assert manifest["preliminary"] == manifest["missing"] == []
    assert [file["path"] for file in manifest["files"]] == ["sst.nc"]
    assert changed_files(download, manifest) == []
    assert (store.grid.area, store.grid.resolution) == (PACIFIC, 8)


def test_equal_contents_have_equal_digests(download, tmp_path, store):
    named = Area("Another name", lon=PACIFIC.lon, lat=PACIFIC.lat, description="and more")
    again = prepare(download, named, 8, tmp_path / "p.json", YEARS)
    assert again.digest == store.digest == store_digest(header(store), store.fields)


@pytest.mark.parametrize(
    "change",
    [
        {"area": {"lon": PACIFIC.lon, "lat": [-32.0, 48.0]}},
        {"years": {"TRAIN": [1980, 1983], "val": [1985, 1986], "test": [1987, 1988]}},
        {"first_month": 0},
        *("sst", "siconc", "climatology", "deviation", "trend", "middle", "sea"),
    ],
)
def test_the_digest_depends_on_every_array_and_on_place_and_time(store, change):
    fields = store.fields.load().copy(deep=True)
    if isinstance(change, str):
        last = fields[change].values[-1:]
        last[:] = ~last if last.dtype == bool else 7
        change = {}
    assert store_digest(header(store) | change, fields) != store.digest


def test_damage_is_an_error(store, tmp_path):
    shutil.copy(store.path, tmp_path / "p.json")
    contents = bytearray(store.file.read_bytes())
    for place in range(len(contents) // 3, 2 * len(contents) // 3, 97):
        contents[place] ^= 1
    for damaged in (contents, contents[:5000]):
        (tmp_path / "p.nc").write_bytes(damaged)
        with pytest.raises(DataError, match=r"p\.nc: cannot be read .*prepare it again"):
            PreparedStore(tmp_path / "p.json")


def test_an_invalid_manifest_is_refused(store, tmp_path):
    path = tmp_path / "p.json"
    with pytest.raises(DataError, match="manifest of prepared temperatures; run prepare again"):
        PreparedStore(path)
    path.write_text(json.dumps(json.loads(store.path.read_text()) | {"schema": 1}))
    with pytest.raises(DataError, match="found schema 1, expected 5; run prepare again"):
        PreparedStore(path)


@pytest.mark.parametrize(
    ("kelvin", "words"),
    [
        (_noise() - 273.15, r"nc: \d+-01 in area Strip has temperatures .* to .*, expected kelvin"),
        (np.full((144, 2), np.nan), "area Strip has no cell that is sea .*a region with sea"),
        # Each cell has values in some months only.
        (np.where(np.arange(144)[:, None] % 2 == [0, 1], 290.0, np.nan), "in every month"),
    ],
)
def test_fields_without_sea_are_refused(tmp_path, kelvin, words):
    with pytest.raises(DataError, match=words):
        series_store(kelvin, tmp_path, SERIES_YEARS)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_prepared_store_is_found_again(tmp_path, capsys):
    path = write_example(tmp_path, SMALL)
    one = prepared_store(tmp_path, WORLD, 30)
    stamp = one.path.stat().st_mtime_ns
    two = prepared_store(tmp_path, WORLD, 30)
    assert (two.path, two.path.stat().st_mtime_ns) == (one.path, stamp)
    assert capsys.readouterr().out.count("preparing ") == 1
    assert one.path.parent == tmp_path / "prepared"
    # The folder may be one that others share, and that is read-only.
    lock = one.path.with_suffix(".lock")
    lock.unlink()
    assert prepared_store(tmp_path, WORLD, 30).path == one.path
    assert not lock.exists()
    others = {
        prepared_store(tmp_path, WORLD, 60).path,
        prepared_store(tmp_path, WORLD, 30, SMALL_YEARS).path,
        prepared_store(tmp_path, Area("World", lon=[0, 180], lat=[-60, 60]), 30).path,
    }
    assert len({one.path, *others}) == 4
    one.file.unlink()
    assert prepared_store(tmp_path, WORLD, 30).file.is_file()
    os.utime(path, ns=(1, 1))
    changed_date = prepared_store(tmp_path, WORLD, 30)
    assert (changed_date.path != one.path, changed_date.digest) == (True, one.digest)
