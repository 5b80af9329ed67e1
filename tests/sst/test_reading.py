from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from tests.sst.conftest import GLOBE
from vrtspike.errors import DataError
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.months import month_name, month_number
from vrtspike.sst.reading import MonthlyMeans

SMALL = Globe(first_year=2000, years=2, step=30.0)


def whole(means: MonthlyMeans) -> np.ndarray:
    return np.concatenate([slab.kelvin for slab in means.slabs()])


def made(folder: Path, **changes: Any) -> Path:
    """A file of two years whose data set was changed; ``change`` gets and returns it."""
    (path,) = write_example(folder, SMALL)
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    changes["change"](dataset).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"per_year": True},
        {"variants": ["older"]},
        {"variants": ["older"], "per_year": True},
        {"variants": ["packed"]},
        {"variants": ["netcdf3"]},
        {"variants": ["expver dimension"]},
        {"variants": ["expver dimension", "packed"]},
        {"variants": ["preliminary"]},
        {"from_minus_180": True},
    ],
    ids=str,
)
def test_every_kind_of_download_holds_the_same_months(tmp_path, options):
    write_example(tmp_path, GLOBE, **options)
    means = MonthlyMeans(tmp_path)
    assert means.months == tuple(GLOBE.months)
    assert len(means.files) == (9 if "per_year" in options else 1)
    expected = GLOBE.kelvin()
    if "from_minus_180" in options:
        assert means.longitudes[0] == -176
        expected = np.roll(expected, len(means.longitudes) // 2, axis=2)
    packed = {"packed", "netcdf3"} & set(options.get("variants", []))
    np.testing.assert_allclose(whole(means), expected, rtol=0, atol=2e-3 if packed else 0)


def test_a_year_is_read_at_a_time(tmp_path):
    write_example(tmp_path, GLOBE)
    sizes = [len(slab.months) for slab in MonthlyMeans(tmp_path).slabs()]
    assert sizes == [12] * 9


@pytest.mark.parametrize("variant", ["preliminary", "expver dimension"])
def test_preliminary_months_are_told(tmp_path, variant):
    write_example(tmp_path, SMALL, variants=[variant])
    told = [month for slab in MonthlyMeans(tmp_path).slabs() for month in slab.preliminary]
    assert sorted(map(month_name, told)) == ["2001-11", "2001-12"]


def test_final_values_come_before_preliminary_ones(tmp_path):
    def both(dataset: xarray.Dataset) -> xarray.Dataset:
        field = dataset["sst"].drop_vars(["expver", "number"])
        late = xarray.concat([field + 1, field], dim="expver")
        # The version that is to be taken stands second.
        late = late.assign_coords(expver=["0005", "0001"])
        return late.transpose("valid_time", "expver", ...).to_dataset(name="sst")

    made(tmp_path, change=both)
    np.testing.assert_array_equal(whole(MonthlyMeans(tmp_path)), SMALL.kelvin())


def test_a_month_that_stands_twice_is_the_final_one(tmp_path):
    def twice(dataset: xarray.Dataset) -> xarray.Dataset:
        last = dataset.isel(valid_time=[-1])
        last = last.assign_coords(expver=("valid_time", ["0005"])).assign(sst=last["sst"] + 1)
        return xarray.concat([last, dataset], dim="valid_time").sortby("valid_time")

    made(tmp_path, change=twice)
    means = MonthlyMeans(tmp_path)
    np.testing.assert_array_equal(whole(means), SMALL.kelvin())
    assert not any(slab.preliminary for slab in means.slabs())


def test_files_of_single_months_are_a_series(tmp_path):
    (path,) = write_example(tmp_path, SMALL)
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    for place in range(5):
        # Some programs drop the dimension of a single time.
        dataset.isel(valid_time=place).to_netcdf(tmp_path / f"{place}.nc", engine="h5netcdf")
    np.testing.assert_array_equal(whole(MonthlyMeans(tmp_path)), SMALL.kelvin()[:5])


def celsius(dataset: xarray.Dataset) -> xarray.Dataset:
    kept = dataset["sst"] - 273.15
    return dataset.assign(sst=kept.assign_attrs(units="K"))


def empty_month(dataset: xarray.Dataset) -> xarray.Dataset:
    sst = dataset["sst"].copy()
    sst[5] = np.nan
    return dataset.assign(sst=sst)


def stamped(dataset: xarray.Dataset, shift: np.ndarray) -> xarray.Dataset:
    return dataset.assign_coords(valid_time=dataset["valid_time"].values + shift)


WRONG = {
    "found t2m, expected the variable sst": lambda d: d.rename(sst="t2m"),
    "found no variable": lambda d: d.drop_vars("sst"),
    "has units 'degC', expected 'K'": lambda d: d.assign(sst=d["sst"].assign_attrs(units="degC")),
    "has units None": lambda d: d.assign(sst=d["sst"].drop_attrs()),
    "expected one named latitude": lambda d: d.rename(latitude="y"),
    "has the dimension member as well": lambda d: d.expand_dims(member=2).transpose(
        "valid_time", ...
    ),
    "has no dimension time or valid_time": lambda d: d.isel(valid_time=0, drop=True),
    "holds no month": lambda d: d.isel(valid_time=slice(0, 0)),
    "expected dates": lambda d: d.assign_coords(valid_time=np.arange(24.0)),
    r"more than once \(12\):\n  - 2000-01\n": lambda d: d.assign_coords(
        valid_time=np.repeat(d["valid_time"].values[:12], 2)
    ),
    "2000-02 stands before 2000-01": lambda d: d.isel(valid_time=[1, 0, 2]),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_file_that_is_no_monthly_temperature_is_refused(tmp_path, words):
    path = made(tmp_path, change=WRONG[words])
    with pytest.raises(DataError, match=words) as caught:
        MonthlyMeans(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (celsius, "2000-01 has values from .*, expected kelvin"),
        (empty_month, "2000-06 has no values at all"),
    ],
)
def test_fields_that_are_none_are_refused_when_they_are_read(tmp_path, change, words):
    path = made(tmp_path, change=change)
    with pytest.raises(DataError, match=words) as caught:
        whole(MonthlyMeans(tmp_path))
    assert str(path) in str(caught.value)


def test_all_wrong_files_are_named_at_once(tmp_path):
    write_example(tmp_path, SMALL)
    for name in ("a.nc", "b.nc"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"files that cannot be used \(2\)") as caught:
        MonthlyMeans(tmp_path)
    assert "a.nc" in str(caught.value)
    assert "b.nc" in str(caught.value)


def yearly(folder: Path, years: int = 4) -> list[Path]:
    return write_example(folder, Globe(first_year=2000, years=years, step=30.0), per_year=True)


def test_a_gap_between_years_is_told_month_by_month(tmp_path):
    yearly(tmp_path)[1].unlink()
    with pytest.raises(DataError, match=r"missing between 2000-01 and 2003-12 \(12\)") as caught:
        MonthlyMeans(tmp_path)
    assert "  - 2001-01\n" in str(caught.value)
    assert "and 4 more" in str(caught.value)


def test_years_that_overlap_are_told_with_both_files(tmp_path):
    shutil.copy(yearly(tmp_path)[1], tmp_path / "again.nc")
    with pytest.raises(DataError, match=r"overlap: both hold 2001-01, .* and 4 more") as caught:
        MonthlyMeans(tmp_path)
    assert "again.nc" in str(caught.value)
    assert "sst_2001.nc" in str(caught.value)


def test_years_on_another_grid_are_told(tmp_path):
    yearly(tmp_path, 1)
    write_example(tmp_path, Globe(first_year=2001, years=1, step=20.0), per_year=True)
    with pytest.raises(DataError, match=r"sst_2001.nc: its latitudes are not those of .*sst_2000"):
        MonthlyMeans(tmp_path)


def test_a_file_within_the_gap_of_another_is_told(tmp_path):
    paths = yearly(tmp_path, 3)
    with (
        xarray.open_dataset(paths[0], engine="h5netcdf") as first,
        xarray.open_dataset(paths[2], engine="h5netcdf") as last,
    ):
        both = xarray.concat([first.load(), last.load()], dim="valid_time")
    for path in (paths[0], paths[2]):
        path.unlink()
    both.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(DataError, match=r"sst_2001.nc lies within a gap of .*a.nc"):
        MonthlyMeans(tmp_path)


def test_what_is_no_file_of_data_is_told(tmp_path):
    with pytest.raises(DataError, match=r"no such folder or file.*Sea surface temperature"):
        MonthlyMeans(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no file \*.nc, "):
        MonthlyMeans(tmp_path)
    path = tmp_path / "download.nc"
    path.write_bytes(b"PK\x03\x04 and more")
    with pytest.raises(DataError, match=r"found a zip archive.*unpack it"):
        MonthlyMeans(tmp_path)
    path.write_bytes(b"\x89HDF\r\n\x1a\n and then it broke off")
    with pytest.raises(DataError, match=r"download.nc: cannot be read .*download it again"):
        MonthlyMeans(path)


def test_a_file_that_breaks_off_is_told(tmp_path):
    (path,) = write_example(tmp_path, GLOBE)
    means = MonthlyMeans(path)
    contents = path.read_bytes()
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(DataError, match=r"sst.nc: cannot be read"):
        whole(means)


def write_grib(path: Path, globe: Globe) -> None:
    """Monthly means as GRIB 1, as the archive of ERA5 holds them."""
    import eccodes

    with path.open("wb") as stream:
        for month, field in zip(globe.months, globe.kelvin(), strict=True):
            message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib1")
            rows, columns = field.shape
            values = {
                "indicatorOfParameter": 34,
                "dataDate": (month // 12) * 10_000 + (month % 12 + 1) * 100 + 1,
                "Ni": columns,
                "Nj": rows,
                "latitudeOfFirstGridPointInDegrees": globe.latitudes[0],
                "latitudeOfLastGridPointInDegrees": globe.latitudes[-1],
                "longitudeOfFirstGridPointInDegrees": 0,
                "longitudeOfLastGridPointInDegrees": globe.longitudes[-1],
                "iDirectionIncrementInDegrees": globe.step,
                "jDirectionIncrementInDegrees": globe.step,
                "bitmapPresent": 1,
                "missingValue": 9999,
                "bitsPerValue": 24,
            }
            for name, value in values.items():
                eccodes.codes_set(message, name, value)
            flat = np.nan_to_num(field.astype(np.float64), nan=9999).ravel()
            eccodes.codes_set_values(message, flat)
            eccodes.codes_write(message, stream)
            eccodes.codes_release(message)


def test_grib_is_read_where_cfgrib_is_installed(tmp_path):
    pytest.importorskip("cfgrib", reason="reads GRIB; not among the required packages")
    write_grib(tmp_path / "sst.grib", SMALL)
    means = MonthlyMeans(tmp_path)
    assert means.months == tuple(SMALL.months)
    np.testing.assert_allclose(whole(means), SMALL.kelvin(), rtol=0, atol=1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["sst.grib"]


@pytest.mark.skipif(importlib.util.find_spec("cfgrib") is not None, reason="cfgrib is installed")
def test_grib_without_cfgrib_says_what_to_install(tmp_path):
    (tmp_path / "sst.grib").write_bytes(b"GRIB and more")
    with pytest.raises(DataError, match=r"package cfgrib, which is not installed.*NetCDF"):
        MonthlyMeans(tmp_path)


def test_the_first_month_is_where_the_file_says():
    assert SMALL.months[0] == month_number(2000, 1)
