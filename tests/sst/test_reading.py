"""Downloads as one series of months: formats, preliminary values, damage and mismatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from tests.sst.conftest import changed
from vrtspike.sst.downloads import find_files
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.months import month_name
from vrtspike.sst.reading import read_months
from vrtspike.system.errors import DataError

SMALL = Globe(first_year=2000, years=2, step=30.0)
LATE = 2
"""Months at the end that are preliminary."""


def split(path: Path, parts: Callable[[xarray.Dataset], Iterable[xarray.Dataset]]) -> None:
    """Replace a file by several."""
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    for number, part in enumerate(parts(dataset)):
        part.to_netcdf(path.with_name(f"{number}.nc"), engine="h5netcdf")


def older(dataset: xarray.Dataset) -> xarray.Dataset:
    """As the download service wrote until 2024: ``time``, 32-bit axes, no ``expver``."""
    result = dataset.drop_vars("expver").rename(valid_time="time")
    axes = {name: result[name].astype(np.float32) for name in ("latitude", "longitude")}
    result = result.assign_coords(axes)
    result["time"].encoding = {"units": "hours since 1900-01-01", "dtype": "int32"}
    return result


def expver_dimension(dataset: xarray.Dataset) -> xarray.Dataset:
    result, late = older(dataset), np.arange(24) >= 24 - LATE
    mask = xarray.DataArray(late, dims="time")
    parts = [result.where(~mask), result.where(mask)]
    return xarray.concat(parts, "expver").assign_coords(expver=[1, 5]).transpose("time", ...)


def preliminary(dataset: xarray.Dataset) -> xarray.Dataset:
    late = np.arange(24) >= 24 - LATE
    return dataset.assign_coords(expver=("valid_time", np.where(late, "0005", "0001")))


def from_minus_180(dataset: xarray.Dataset) -> xarray.Dataset:
    shifted = (dataset["longitude"] + 180) % 360 - 180
    return dataset.assign_coords(longitude=shifted).sortby("longitude")


def packed(path: Path, engine: str) -> None:
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = older(opened.load())
    path.unlink()
    packing = {"dtype": "int16", "scale_factor": 1e-3, "add_offset": 285.0, "_FillValue": -32767}
    encoding = {"sst": packing, "siconc": {"dtype": "float32"}}
    dataset.to_netcdf(path, engine=engine, encoding=encoding)


KINDS = {
    "new": lambda path: None,
    "older": lambda path: changed(path, older),
    "per year": lambda path: split(path, lambda d: (p for _, p in d.groupby("valid_time.year"))),
    "per variable": lambda path: split(path, lambda d: (d[["sst"]], d[["siconc"]])),
    # Some programs drop the dimension of a single time.
    "per month": lambda path: split(path, lambda d: (d.isel(valid_time=n) for n in range(24))),
    "expver dimension": lambda path: changed(path, expver_dimension),
    "preliminary": lambda path: changed(path, preliminary),
    "packed": lambda path: packed(path, "h5netcdf"),
    "netcdf3": lambda path: packed(path, "scipy"),
    "from -180": lambda path: changed(path, from_minus_180),
    "noleap calendar": lambda path: changed(
        path, lambda d: d.convert_calendar("noleap", dim="valid_time")
    ),
    "backwards": lambda path: changed(path, lambda d: d.isel(valid_time=slice(None, None, -1))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_download_holds_the_same_months(tmp_path, kind):
    KINDS[kind](write_example(tmp_path, SMALL))
    result = read_months(tmp_path)
    assert result.time.values.tolist() == SMALL.months.tolist()
    assert result["sst"].chunks is not None
    expected, ice = SMALL.kelvin(), SMALL.ice()
    if kind == "from -180":
        assert result.longitude.values.tolist() == np.arange(-180, 180, 30).tolist()
        expected, ice = (np.roll(field, 6, axis=2) for field in (expected, ice))
    tolerance = 6e-4 if kind in ("packed", "netcdf3") else 0
    np.testing.assert_allclose(result["sst"].values, expected, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(result["siconc"].values, ice)
    late = result.time.values[result.version.values != 1].tolist()
    wanted = ["2001-11", "2001-12"] if kind in ("preliminary", "expver dimension") else []
    assert list(map(month_name, late)) == wanted


def test_final_values_come_before_preliminary_ones(tmp_path):
    """Of a month in two files, and of one that stands in both versions of a file."""

    def wrong(d: xarray.Dataset) -> xarray.Dataset:
        return (
            d.isel(valid_time=slice(5, 9))
            .assign(sst=d["sst"] + 1)
            .assign_coords(expver=("valid_time", ["0005"] * 4))
        )

    path = write_example(tmp_path, SMALL)
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        wrong(opened.load()).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    result = read_months(tmp_path)
    np.testing.assert_array_equal(result["sst"].values, SMALL.kelvin())
    assert set(result.version.values) == {1}
    changed(path, lambda d: xarray.concat([d, wrong(d)], "valid_time"))
    (tmp_path / "a.nc").unlink()
    np.testing.assert_array_equal(read_months(tmp_path)["sst"].values, SMALL.kelvin())


WRONG = {
    "no file with the variable sst; .* 'Sea surface": lambda d: d.rename(sst="t2m"),
    r"\(it holds t2m\); expected sst or siconc": lambda d: d.rename(sst="t2m").drop_vars("siconc"),
    "sst has units 'degC', .* expected 'K'": lambda d: d.assign(
        sst=d["sst"].assign_attrs(units="degC")
    ),
    "siconc has units '%'": lambda d: d.assign(siconc=d["siconc"].assign_attrs(units="%")),
    "sst from 2000-01 on has GRIB_stepType 'instant'": lambda d: d.assign(
        sst=d["sst"].assign_attrs(GRIB_stepType="instant")
    ),
    "siconc from 2000-01 on has cell_methods 'time: point'": lambda d: d.assign(
        siconc=d["siconc"].assign_attrs(cell_methods="time: point")
    ),
    "sst from 2000-01 on has times at 6:00": lambda d: d.assign_coords(
        valid_time=d["valid_time"] + np.timedelta64(6, "h")
    ),
    "has units None": lambda d: d.assign(sst=d["sst"].drop_attrs()),
    "the dimensions valid_time, y, longitude and 24 times": lambda d: d.rename(latitude="y"),
    "the dimensions member, valid_time": lambda d: d.expand_dims(member=2),
    "latitude, longitude and 0 times of type": lambda d: d.isel(valid_time=0, drop=True),
    "and 0 times of type datetime64": lambda d: d.isel(valid_time=slice(0, 0)),
    "and 24 times of type float64; expected .* dates": lambda d: d.assign_coords(
        valid_time=np.arange(24.0)
    ),
    "sst.nc: sst of 2000-01 stands more than once": lambda d: d.assign_coords(
        valid_time=np.repeat(d["valid_time"].values[:12], 2)
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_file_that_is_no_monthly_temperature_is_refused(tmp_path, words):
    changed(write_example(tmp_path, SMALL), WRONG[words])
    with pytest.raises(DataError, match=words) as caught:
        read_months(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_files_that_do_not_fit_together_are_named(tmp_path):
    path = write_example(tmp_path, SMALL)
    (tmp_path / "again.nc").write_bytes(path.read_bytes())
    with pytest.raises(DataError, match=r"again.nc and .*sst.nc: sst of 2000-01 stands more"):
        read_months(tmp_path)
    write_example(tmp_path / "b", Globe(first_year=2002, years=1, step=20.0)).rename(
        tmp_path / "again.nc"
    )
    with pytest.raises(
        DataError, match=r"sst.nc: its latitudes and longitudes are not those of .*again.nc"
    ):
        read_months(tmp_path)


def test_a_folder_without_data_files_is_refused(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataError, match=r"no file or folder with \*.nc, .*Sea surface temp"):
            read_months(folder)
    path = tmp_path / "download.nc"
    for contents in (b"PK\x03\x04 and more", b"CDF\x01", b"\x89HDF\r\n\x1a\n and it broke off"):
        path.write_bytes(contents)
        with pytest.raises(DataError, match=r"download.nc: cannot be used .*unpack a zip archive"):
            read_months(path)


def test_apple_double_files_are_left_out(tmp_path):
    path = write_example(tmp_path, SMALL)
    beside = tmp_path / "._sst.nc"
    beside.write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
    assert find_files(tmp_path) == [path]
    beside.write_bytes(path.read_bytes())
    assert find_files(tmp_path) == [beside, path]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("scipy", r"sst.nc: (cannot be used|sst of 2\d{3}-\d\d cannot be read) .*download"),
        ("h5netcdf", r"sst.nc: cannot be used .*download a damaged file again"),
    ],
)
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_a_cut_file_is_refused(tmp_path, engine, words, share):
    path = write_example(tmp_path, SMALL)
    packed(path, engine)
    contents = path.read_bytes()
    path.write_bytes(contents[: int(share * len(contents))])
    with pytest.raises(DataError, match=words):
        read_months(tmp_path).compute()


def test_a_damaged_month_of_a_file_is_named(tmp_path):
    path = write_example(tmp_path, SMALL)
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    shape = (1, *dataset["sst"].shape[1:])
    encoding = {"sst": {"zlib": True, "fletcher32": True, "chunksizes": shape}}
    dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    with h5py.File(path) as opened:
        chunk = opened["sst"].id.get_chunk_info_by_coord((17, 0, 0))
    contents = bytearray(path.read_bytes())
    contents[chunk.byte_offset + chunk.size // 2] ^= 255
    path.write_bytes(contents)
    with pytest.raises(DataError, match=r"sst.nc: sst of 2001-06 cannot be read .*damaged"):
        read_months(tmp_path).compute()


def test_ice_of_more_months_than_the_temperature_is_kept(tmp_path):
    split(write_example(tmp_path, SMALL), lambda d: (d[["sst"]][{"valid_time": slice(20)}],))
    write_example(tmp_path / "b", SMALL)
    split(tmp_path / "b" / "sst.nc", lambda d: (d[["siconc"]],))
    (tmp_path / "b" / "0.nc").rename(tmp_path / "ice.nc")
    months = read_months(tmp_path)
    assert months.time.values.tolist() == SMALL.months.tolist()
    assert months.source.notnull().values.tolist() == [True] * 20 + [False] * 4
    assert months.ice_source.notnull().all()


def test_months_from_1940_on_are_read_as_all_others(tmp_path):
    """Before 1970 stamps in seconds are negative."""
    globe = Globe(first_year=1940, years=2, step=30.0)
    write_example(tmp_path, globe)
    fields = read_months(tmp_path)
    assert [month_name(int(fields.time[place])) for place in (0, -1)] == ["1940-01", "1941-12"]
    np.testing.assert_array_equal(fields.sst, globe.kelvin())
