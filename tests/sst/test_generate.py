from __future__ import annotations

import numpy as np
import pytest
import xarray

from tests.sst.conftest import GLOBE
from vrtspike.sst.generate import EL_NINO_K, PERIODS, WEATHER_K, Globe, write_example


def by_month(kelvin: np.ndarray) -> np.ndarray:
    """(N, h, w) to (years, 12, h, w)."""
    return kelvin.reshape(-1, 12, *kelvin.shape[1:])


def anomalies(globe: Globe) -> np.ndarray:
    fields = by_month(globe.kelvin())
    return (fields - fields.mean(axis=0)).reshape(-1, *fields.shape[2:])


def test_a_file_looks_like_a_download(tmp_path):
    (path,) = write_example(tmp_path, GLOBE)
    with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as raw:
        assert raw["sst"].dims == ("valid_time", "latitude", "longitude")
        assert raw["sst"].attrs["units"] == "K"
        assert raw["valid_time"].attrs["units"] == "seconds since 1970-01-01"
        assert raw["valid_time"].values[0] == 10 * 365 * 86_400 + 2 * 86_400
        assert (np.diff(raw["latitude"]) < 0).all()
        assert (raw["longitude"].values[0], raw["longitude"].values[-1]) == (0, 352)
        assert set(raw["expver"].values) == {"0001"}
        land = np.isnan(raw["sst"].values)
    assert (land == land[0]).all()
    assert 0.02 < land[0].mean() < 0.3


def test_an_older_file_is_packed_into_16_bits(tmp_path):
    (path,) = write_example(tmp_path, GLOBE, variants=["packed"])
    with xarray.open_dataset(path, engine="h5netcdf", mask_and_scale=False) as raw:
        assert raw["sst"].dtype == np.int16
        assert raw["time"].dtype.kind == "M"
        assert raw["latitude"].dtype == np.float32
    with xarray.open_dataset(path, engine="h5netcdf") as read:
        assert np.abs(read["sst"].values - GLOBE.kelvin())[GLOBE.kelvin() > 0].max() < 2e-3


def test_preliminary_months_stand_in_a_version_of_their_own(tmp_path):
    (path,) = write_example(tmp_path, GLOBE, variants=["expver dimension"])
    with xarray.open_dataset(path, engine="h5netcdf") as read:
        empty = np.isnan(read["sst"].transpose("expver", "time", ...).values).all(axis=(2, 3))
        assert read["expver"].values.tolist() == [1, 5]
    assert empty[0].tolist() == [False] * 106 + [True] * 2
    assert empty[1].tolist() == [True] * 106 + [False] * 2


def test_equal_seeds_give_equal_seas():
    again = Globe(years=9, step=8.0, south=-56.0)
    assert np.array_equal(GLOBE.kelvin(), again.kelvin(), equal_nan=True)
    other = Globe(years=9, step=8.0, south=-56.0, seed=1)
    assert not np.array_equal(GLOBE.kelvin(), other.kelvin(), equal_nan=True)


def test_seasons_are_opposite_in_north_and_south():
    fields = by_month(Globe(years=30, step=8.0).kelvin()).mean(axis=0)
    latitudes = Globe(step=8.0).latitudes
    north, south = (
        np.nanmean(fields[:, rows], axis=(1, 2)) for rows in (latitudes > 20, latitudes < -20)
    )
    assert (north.argmax(), north.argmin()) == (8, 2)
    assert (south.argmax(), south.argmin()) == (2, 8)
    tropics = np.nanmean(fields[:, np.abs(latitudes) < 5])
    assert tropics > np.nanmean(fields[:, np.abs(latitudes) > 50]) + 10


def test_two_anomalies_travel_one_west_one_east():
    # Along the circle at the latitude next to 30 S, where El Nino is weak: waves 5 and 4.
    globe = Globe(years=40, step=8.0, south=-60.0)
    row = int(np.abs(globe.latitudes + 36).argmin())
    sea = np.nan_to_num(anomalies(globe)[:, row])
    spectrum = np.abs(np.fft.fft2(sea))
    months = len(sea)
    for number, period, way in ((5, PERIODS[0], 1), (4, PERIODS[1], -1)):
        # cos(k x + w t) stands at (w, k) and (-w, -k); going east, the signs differ.
        frequency = round(months / period) * way
        near = spectrum[[(frequency + d) % months for d in (-1, 0, 1)], number].max()
        opposite = spectrum[[(-frequency + d) % months for d in (-1, 0, 1)], number].max()
        assert near > 5 * opposite


def test_el_nino_swings_where_it_belongs():
    globe = Globe(years=60, step=4.0)
    strength = anomalies(globe).std(axis=0)
    row, column = (
        int(np.abs(globe.latitudes).argmin()),
        int(np.abs(globe.longitudes - 220).argmin()),
    )
    quiet = strength[row, int(np.abs(globe.longitudes - 20).argmin())]
    assert strength[row, column] ** 2 - quiet**2 == pytest.approx(EL_NINO_K**2, rel=0.4)
    swing = anomalies(globe)[:, row, column]
    assert np.corrcoef(swing[:-1], swing[1:])[0, 1] > 0.7


def test_without_anomalies_only_weather_is_left():
    sea = anomalies(Globe(years=40, step=8.0, anomalies=False))
    sea = sea[:, ~np.isnan(sea[0])]
    assert sea.std() == pytest.approx(WEATHER_K * np.sqrt(39 / 40), rel=0.02)
    # Nothing of one month is left in the next.
    assert abs(np.mean(sea[1:] * sea[:-1])) < 0.05 * sea.var()
    # It is the weather of the sea with anomalies.
    rest = Globe(years=40, step=8.0).kelvin() - Globe(years=40, step=8.0, anomalies=False).kelvin()
    assert np.nanstd(np.diff(rest, n=2, axis=0)) < 1
