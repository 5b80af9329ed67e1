from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import vrtspike.sst.prepare as prepare_module
from tests.sst.conftest import GLOBE, PACIFIC, YEARS
from vrtspike.deblurring.data.raw.versions import changed_files
from vrtspike.errors import DataError, DiskFullError
from vrtspike.sst.area import Area
from vrtspike.sst.cached import data_root, prepared_store
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.grid import Grid, Regridder
from vrtspike.sst.months import month_number
from vrtspike.sst.prepare import DEVIATION_FLOOR_K, contents_digest, prepare, stored_digest
from vrtspike.sst.store import PreparedStore
from vrtspike.sst.years import Years

SMALL = Globe(first_year=2000, years=5, step=30.0)
SMALL_YEARS = Years((2000, 2002), (2003, 2003), (2004, 2004))
WORLD = Area("World", lon=[0, 360], lat=[-60, 60])


def regridded() -> np.ndarray:
    """(108, 10, 20) kelvin of the fixture's region."""
    return Regridder(GLOBE.latitudes, GLOBE.longitudes, Grid(PACIFIC, 8), "a")(GLOBE.kelvin())


def test_temperatures_are_those_of_the_region(store):
    kelvin = regridded().astype(np.float32)
    first = store.first_month
    assert first == month_number(1980, 1)
    np.testing.assert_array_equal(store.read("sst", first, first + 108), kelvin)
    np.testing.assert_array_equal(store.read("sst", first + 30, first + 33), kelvin[30:33])
    np.testing.assert_array_equal(store.sea, np.isfinite(kelvin).all(axis=0))
    assert 0.5 < store.sea.mean() < 0.95


def test_climatology_and_deviation_are_those_of_the_training_years(store):
    years = regridded().reshape(9, 12, 10, 20)
    sea = store.sea
    training = years[:5]
    np.testing.assert_allclose(store.climatology[:, sea], training.mean(axis=0)[:, sea], rtol=1e-6)
    spread = np.maximum(training.std(axis=0), DEVIATION_FLOOR_K)
    np.testing.assert_allclose(store.deviation[:, sea], spread[:, sea], rtol=1e-3)
    assert (store.climatology[:, ~sea] == 0).all()
    assert (store.deviation[:, ~sea] == 1).all()


def test_anomalies_are_standardised_by_their_months(store):
    anomaly = store.read("anomaly", store.first_month, store.first_month + 108)
    years = anomaly.reshape(9, 12, 10, 20)[..., store.sea]
    # Temperatures have 24 bits, so a step of 3e-5 K, of a deviation of 0.1 K or more.
    assert np.abs(years[:5].mean(axis=0)).max() < 3e-4
    spread = regridded().reshape(9, 12, 10, 20)[:5].std(axis=0)[:, store.sea]
    expected = np.minimum(1, spread / DEVIATION_FLOOR_K)
    np.testing.assert_allclose(years[:5].std(axis=0), expected, rtol=1e-3)
    assert np.abs(years[5:].mean(axis=0)).max() > 0.1
    assert (anomaly[:, ~store.sea] == 0).all()
    march = month_number(1987, 3)
    expected = (store.read("sst", march, march + 1)[0] - store.climatology[2]) / store.deviation[2]
    found = store.read("anomaly", march, march + 1)[0]
    np.testing.assert_allclose(found[store.sea], expected[store.sea], rtol=1e-5)


def test_weights_are_the_areas_of_the_sea(store):
    rows = np.cos(np.deg2rad(store.grid.latitudes))[:, None] * store.sea
    np.testing.assert_allclose(store.weights(), rows / rows.sum(), rtol=1e-6)


def test_years_that_are_held_out_change_nothing_of_what_is_learned(tmp_path):
    """The test years of another download are other ones; climatology and deviation stay."""
    kelvin = SMALL.kelvin()
    stores = []
    for name, change in (("a", 0.0), ("b", 5.0)):
        folder = tmp_path / name
        (path,) = write_example(folder, SMALL)
        with zarr_free_copy(path) as dataset:
            dataset["sst"][36:] = kelvin[36:] + change
        stores.append(prepare(folder, WORLD, 30, folder / "p.json", SMALL_YEARS))
    one, two = stores
    np.testing.assert_array_equal(one.climatology, two.climatology)
    np.testing.assert_array_equal(one.deviation, two.deviation)
    assert one.digest != two.digest


def zarr_free_copy(path: Path):
    """The NetCDF file, open to be changed in place."""
    import h5netcdf

    return h5netcdf.File(path, "r+")


def test_cells_without_a_value_in_some_month_are_no_sea(tmp_path):
    (path,) = write_example(tmp_path, SMALL)
    clean = prepare(tmp_path, WORLD, 30, tmp_path / "a" / "p.json", SMALL_YEARS)
    with zarr_free_copy(path) as dataset:
        values = dataset["sst"][7]
        values[:, 0] = np.nan
        values[:, 1] = np.nan
        dataset["sst"][7] = values
    store = prepare(tmp_path, WORLD, 30, tmp_path / "b" / "p.json", SMALL_YEARS)
    lost = clean.sea & ~store.sea
    assert store.manifest["dropped_cells"] == lost.sum() > 0
    assert clean.manifest["dropped_cells"] == 0
    assert store.manifest["sea_cells"] == store.sea.sum()
    assert not store.sea[:, 0].any()
    anomaly = store.read("anomaly", store.first_month, store.first_month + 60)
    assert (anomaly[:, ~store.sea] == 0).all()


def test_a_sea_that_hardly_moves_is_not_blown_up(tmp_path):
    (path,) = write_example(tmp_path, SMALL)
    with zarr_free_copy(path) as dataset:
        dataset["sst"][:] = np.where(np.isnan(SMALL.kelvin()), np.nan, 271.46)
    store = prepare(tmp_path, WORLD, 30, tmp_path / "p.json", SMALL_YEARS)
    assert store.deviation[:, store.sea] == pytest.approx(DEVIATION_FLOOR_K)
    months = store.read("anomaly", store.first_month, store.first_month + 60)
    assert np.abs(months).max() < 1e-3


def test_the_manifest_says_what_was_prepared(store, download):
    manifest = store.manifest
    assert manifest["years"] == {"train": [1980, 1984], "val": [1985, 1986], "test": [1987, 1988]}
    assert manifest["months"] == 108
    assert manifest["preliminary"] == []
    assert [file["path"] for file in manifest["files"]] == ["sst.nc"]
    assert changed_files(download, manifest) == []
    assert (store.area, store.grid.resolution) == (PACIFIC, 8)


def test_a_changed_download_is_told_by_its_files(store, download, tmp_path):
    shutil.copytree(download, tmp_path / "era5")
    with (tmp_path / "era5" / "sst.nc").open("ab") as stream:
        stream.write(b"x")
    assert changed_files(tmp_path / "era5", store.manifest) == ["sst.nc"]


def test_preliminary_months_stand_in_the_manifest(tmp_path):
    write_example(tmp_path, SMALL, variants=["preliminary"])
    store = prepare(tmp_path, WORLD, 30, tmp_path / "p.json", SMALL_YEARS)
    assert store.manifest["preliminary"] == ["2004-11", "2004-12"]


@pytest.mark.parametrize("options", [{"per_year": True}, {"from_minus_180": True}], ids=str)
def test_equal_contents_have_equal_digests(download, tmp_path, store, options):
    write_example(tmp_path, GLOBE, **options)
    named = Area("Another name", lon=PACIFIC.lon, lat=PACIFIC.lat, description="and more")
    again = prepare(tmp_path, named, 8, tmp_path / "p.json", YEARS)
    assert again.digest == store.digest == stored_digest(store)


@pytest.mark.parametrize(
    ("area", "years"),
    [
        (Area("Pacific", lon=[120, -80], lat=[-32, 48]), YEARS),
        (PACIFIC, Years((1980, 1984), (1985, 1985), (1986, 1988))),
        (PACIFIC, Years((1980, 1983), (1985, 1986), (1987, 1988))),
    ],
    ids=["region", "held out years", "training years"],
)
def test_other_contents_have_other_digests(download, tmp_path, store, area, years):
    assert prepare(download, area, 8, tmp_path / "p.json", years).digest != store.digest


@pytest.mark.parametrize("edge", ["lon", "lat"])
def test_the_digest_sees_where_the_cells_are(store, edge):
    header = {**store.manifest, "area": PACIFIC.as_json()}
    header = {k: header[k] for k in ("area", "resolution", "years", "first_month", "months")}
    assert contents_digest(header, store.layout, store.read_places) == store.digest
    header["area"][edge] = [0.0, 80.0]
    assert contents_digest(header, store.layout, store.read_places) != store.digest


@pytest.mark.parametrize("name", ["sst", "anomaly", "climatology", "deviation", "sea"])
def test_the_digest_sees_every_array(store, tmp_path, name):
    copy = tmp_path / "p.json"
    shutil.copy(store.path, copy)
    shutil.copytree(store.folder, tmp_path / "p.zarr")
    array = zarr.open_array(tmp_path / "p.zarr" / name, mode="r+")
    array[-1] = array[-1] + (np.arange(20) == 19).astype(array.dtype)
    assert stored_digest(PreparedStore(copy)) != store.digest


def test_a_damaged_chunk_is_an_error(store, tmp_path):
    shutil.copy(store.path, tmp_path / "p.json")
    shutil.copytree(store.folder, tmp_path / "p.zarr")
    copy = PreparedStore(tmp_path / "p.json")
    files = sorted((tmp_path / "p.zarr" / "anomaly" / "c").rglob("*"))
    files = [file for file in files if file.is_file()]
    assert len(files) == 9
    contents = bytearray(files[3].read_bytes())
    contents[len(contents) // 3] ^= 1
    files[3].write_bytes(contents)
    first = copy.first_month
    assert copy.read("anomaly", first, first + 36).shape == (36, 10, 20)
    with pytest.raises(DataError, match=r"anomaly: cannot be read .*prepare it again"):
        copy.read("anomaly", first + 36, first + 37)
    files[4].unlink()
    with pytest.raises(DataError, match="cannot be read"):
        copy.read("anomaly", first + 48, first + 49)


def test_a_manifest_that_is_none_is_refused(store, tmp_path):
    path = tmp_path / "p.json"
    with pytest.raises(DataError, match="manifest of prepared temperatures; run prepare again"):
        PreparedStore(path)
    contents = json.loads(store.path.read_text())
    for change, words in (
        ({"schema": 99}, "found schema 99"),
        ({"resolution": "x"}, "damaged"),
        ({"years": {"train": [1, 2]}}, "train, val, test"),
    ):
        path.write_text(json.dumps(contents | change))
        with pytest.raises(DataError, match=words):
            PreparedStore(path)


def test_a_region_without_sea_is_refused(download, tmp_path):
    inland = Area("Inland", lon=[240, 256], lat=[8, 24])
    with pytest.raises(DataError, match=r"area Inland, lon \[240.0, 256.0\].*no cell.*with sea"):
        prepare(download, inland, 8, tmp_path / "p.json", YEARS)
    assert list(tmp_path.iterdir()) == []


def test_a_sea_that_is_never_there_twice_is_refused(tmp_path):
    (path,) = write_example(tmp_path, SMALL)
    half = SMALL.kelvin()
    half[::2, :, :6] = np.nan
    half[1::2, :, 6:] = np.nan
    with zarr_free_copy(path) as dataset:
        dataset["sst"][:] = half
    # The cells of 30 degrees take from two columns; those in between have always one of them.
    east = Area("East", lon=[0, 150], lat=[-60, 60])
    with pytest.raises(DataError, match="cells have values in some months only"):
        prepare(tmp_path, east, 30, tmp_path / "out" / "p.json", SMALL_YEARS)


def test_years_that_the_files_lack_are_refused(download, tmp_path):
    with pytest.raises(DataError, match=r"1980-01 to 1988-12.*test are \[1987, 1989\]"):
        prepare(
            download,
            PACIFIC,
            8,
            tmp_path / "p.json",
            Years((1980, 1984), (1985, 1986), (1987, 1989)),
        )


def test_without_years_the_last_ones_are_held_out(download, tmp_path):
    store = prepare(download, PACIFIC, 8, tmp_path / "p.json")
    assert store.years == Years((1980, 1986), (1987, 1987), (1988, 1988))


def test_nothing_is_left_of_a_preparation_that_fails(download, tmp_path, monkeypatch):
    prepare(download, PACIFIC, 8, tmp_path / "p.json", YEARS)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    monkeypatch.setattr(prepare_module, "_deviation", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(download, PACIFIC, 4 * 2, tmp_path / "p.json", YEARS)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert stored_digest(PreparedStore(tmp_path / "p.json"))


def test_a_full_disk_is_told_with_what_is_needed(download, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(prepare_module, "_fill", full)
    with pytest.raises(DiskFullError, match=r"p.zarr: the disk is full .*up to 0 MB. Free space"):
        prepare(download, PACIFIC, 8, tmp_path / "p.json", YEARS)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_year_by_year(download, tmp_path):
    told = []
    prepare(download, PACIFIC, 8, tmp_path / "p.json", YEARS, lambda *at: told.append(at))
    assert told == [(12 * n, 108) for n in range(1, 10)]


def test_a_prepared_store_is_found_again(tmp_path):
    write_example(tmp_path, SMALL)
    told: list[str] = []
    one = prepared_store(tmp_path, WORLD, 30, tell=told.append)
    stamp = one.path.stat().st_mtime_ns
    two = prepared_store(tmp_path, WORLD, 30, tell=told.append)
    assert (two.path, two.path.stat().st_mtime_ns, len(told)) == (one.path, stamp, 1)
    assert one.path.parent == tmp_path / "prepared"
    others = {
        prepared_store(tmp_path, WORLD, 60).path,
        prepared_store(tmp_path, WORLD, 30, SMALL_YEARS).path,
        prepared_store(tmp_path, Area("World", lon=[0, 180], lat=[-60, 60]), 30).path,
    }
    assert len({one.path, *others}) == 4
    shutil.rmtree(one.folder)
    assert prepared_store(tmp_path, WORLD, 30).folder.is_dir()


def test_new_files_are_prepared_anew(tmp_path):
    (path,) = write_example(tmp_path, SMALL)
    one = prepared_store(tmp_path, WORLD, 30)
    os.utime(path, ns=(1, 1))
    two = prepared_store(tmp_path, WORLD, 30)
    assert one.path != two.path
    assert one.digest == two.digest


def test_what_is_prepared_may_stand_elsewhere(tmp_path):
    write_example(tmp_path / "raw", SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="prepared in dataset_params"):
        prepared_store(tmp_path / "raw", WORLD, 30, folder=tmp_path / "file" / "x")
    store = prepared_store(tmp_path / "raw", WORLD, 30, folder=tmp_path / "x")
    assert store.path.parent == tmp_path / "x"
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["sst.nc"]


def test_the_data_lie_where_the_environment_says(monkeypatch):
    monkeypatch.delenv("VRTSPIKE_ERA5", raising=False)
    assert data_root() == Path("data/era5")
    monkeypatch.setenv("VRTSPIKE_ERA5", "/somewhere")
    assert data_root() == Path("/somewhere")
