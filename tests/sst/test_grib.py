"""GRIB files: variables, damage, editions and products other than monthly means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from vrtspike.sst.months import month_name
from vrtspike.sst.reading import read_months
from vrtspike.system.errors import DataError

eccodes = pytest.importorskip("eccodes", reason="the extra grib is not installed")

ROWS, COLUMNS = 31, 16
"""Points of the sample of the library."""
MONTH_BYTE = 8 + 13
"""Place of the month in a message of edition 1."""
PARAMETERS = {"sst": 34, "siconc": 31, "t2m": 167}


def message(month: int, name: str = "sst", value: float = 280.0, **keys: Any) -> bytes:
    """Monthly mean as the archive of ERA5 holds it; the first point is missing."""
    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib1")
    eccodes.codes_set(handle, "paramId", PARAMETERS[name])
    date = 10_000 * (2000 + month // 12) + 100 * (month % 12 + 1) + 1
    for key, setting in ({"stream": "moda", "dataDate": date, "dataTime": 0} | keys).items():
        eccodes.codes_set(handle, key, setting)
    eccodes.codes_set(handle, "bitmapPresent", 1)
    # 9999 is a missing value.
    values = value + np.arange(ROWS * COLUMNS - 1) / 10_000
    eccodes.codes_set_values(handle, np.r_[9999.0, values])
    contents = eccodes.codes_get_message(handle)
    eccodes.codes_release(handle)
    return bytes(contents)


def refused(folder: Path, contents: bytes, words: str) -> None:
    (folder / "sst.grib").write_bytes(contents)
    with pytest.raises(DataError, match=words) as caught:
        read_months(folder)
    assert str(folder / "sst.grib") in str(caught.value)


def test_temperature_and_ice_are_read(tmp_path):
    messages = [
        message(n, name, v) for n in range(3) for name, v in [("sst", 280 + n), ("siconc", n / 4)]
    ]
    (tmp_path / "sst.grib").write_bytes(b"".join(messages))
    months = read_months(tmp_path)
    assert list(map(month_name, months.time.values)) == ["2000-01", "2000-02", "2000-03"]
    assert months["sst"].chunks is not None
    np.testing.assert_allclose(months.latitude, np.arange(60, -2, -2))
    np.testing.assert_allclose(months.longitude, np.arange(0, 32, 2))
    points = np.arange(ROWS * COLUMNS - 1) / 10_000
    for month in range(3):
        for name, value in (("sst", 280 + month), ("siconc", month / 4)):
            field = months[name][month].values.ravel()
            np.testing.assert_allclose(field, np.r_[np.nan, value + points], atol=1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["sst.grib"]


def test_ice_of_fewer_months_than_the_temperature_is_kept(tmp_path):
    contents = [message(n) for n in range(6)] + [message(n, "siconc", 0.5) for n in (1, 3)]
    (tmp_path / "sst.grib").write_bytes(b"".join(contents))
    months = read_months(tmp_path)
    assert months["sst"].notnull().any(["latitude", "longitude"]).values.all()
    with_ice = months["siconc"].notnull().any(["latitude", "longitude"]).values
    assert with_ice.tolist() == [False, True, False, True, False, False]


def test_other_parameters_are_left_out(tmp_path):
    contents = [message(0), message(0, "t2m", stream="oper"), message(1)]
    (tmp_path / "sst.grib").write_bytes(b"".join(contents))
    assert read_months(tmp_path)["sst"].shape == (2, ROWS, COLUMNS)
    refused(tmp_path, message(0, "t2m"), "holds t2m; expected sst or siconc")


@pytest.mark.parametrize("cut", [1, 3, 100, 800])
def test_a_cut_file_is_refused(tmp_path, cut):
    contents = b"".join(message(n) for n in range(4))
    refused(tmp_path, contents[:-cut], r"after message 3 \(sst of 2000-03\) stands .*cut .*again")


def test_a_file_cut_in_the_first_bytes_of_a_message_is_refused(tmp_path):
    contents = b"".join(message(n) for n in range(3))
    refused(tmp_path, contents + b"GR", r"after message 3 \(sst of 2000-03\) stand 2 bytes")
    refused(tmp_path, contents + bytes(900), r"after message 3 .* stand 900 bytes")


def _without_mark(messages: list[bytes]) -> bytes:
    return messages[0] + b"XXXX" + messages[1][4:] + messages[2]


def _without_end(messages: list[bytes]) -> bytes:
    return messages[0] + messages[1][:-4] + b"XXXX" + messages[2]


def _emptied(messages: list[bytes]) -> bytes:
    return messages[0] + bytes(len(messages[1])) + messages[2]


def _wrong_length(messages: list[bytes]) -> bytes:
    return messages[0] + messages[1][:5] + b"\x09" + messages[1][6:] + messages[2]


def _unknown(messages: list[bytes]) -> bytes:
    return messages[0] + messages[1][:8] + bytes(52) + messages[1][60:] + messages[2]


@pytest.mark.parametrize("damage", [_without_mark, _without_end, _emptied, _wrong_length, _unknown])
def test_a_damaged_message_is_refused(tmp_path, damage):
    contents = damage([message(n) for n in range(3)])
    refused(tmp_path, contents, r"after message 1 \(sst of 2000-01\) stand.* again")


def test_a_message_of_an_unknown_parameter_is_refused(tmp_path):
    unknown = message(1, table2Version=250, indicatorOfParameter=250)
    words = "after message 1 .* stands a message of parameter 0 and date 20000201; .*again"
    refused(tmp_path, message(0) + unknown + message(2), words)


@pytest.mark.parametrize(("month", "date"), [(0, "20000001"), (13, "20001301")])
def test_a_message_without_a_date_is_refused(tmp_path, month, date):
    undated = bytearray(message(1))
    assert undated[MONTH_BYTE] == 2
    undated[MONTH_BYTE] = month
    words = f"after message 1 .* stands a message of parameter 34 and date {date}; .*again"
    refused(tmp_path, message(0) + undated + message(2), words)


def mean_of_edition_2() -> int:
    handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(handle, "paramId", 34)
    eccodes.codes_set(handle, "productDefinitionTemplateNumber", 8)
    eccodes.codes_set(handle, "stepType", "avg")
    eccodes.codes_set_values(handle, np.full(ROWS * COLUMNS, 280.0))
    return int(handle)


def test_edition_2_is_read(tmp_path):
    (tmp_path / "sst.grib2").write_bytes(eccodes.codes_get_message(mean_of_edition_2()))
    np.testing.assert_allclose(read_months(tmp_path)["sst"], 280)


def test_several_fields_in_a_message_are_refused(tmp_path):
    fields = eccodes.codes_grib_multi_new()
    for _ in range(2):
        eccodes.codes_grib_multi_append(mean_of_edition_2(), 4, fields)
    path = tmp_path / "fields"
    with path.open("wb") as stream:
        eccodes.codes_grib_multi_write(fields, stream)
    refused(tmp_path, path.read_bytes(), "after message 1 .* stands a second field in the same mes")


@pytest.mark.parametrize("name", ["sst", "siconc"])
@pytest.mark.parametrize("stream", ["oper", "mnth", "enda"])
def test_other_steps_than_monthly_means_are_refused(tmp_path, name, stream):
    """One hour of each month, too, or the means of one hour of each day."""
    contents = [message(0), message(0, "siconc", 0.5), message(1, name, 0.5, stream=stream)]
    words = rf"stands {name} of 2000-02 of stream {stream} .*expected the mean of a whole month"
    refused(tmp_path, b"".join(contents), words)


def test_a_mean_of_other_steps_is_refused_and_one_of_an_ensemble_is_read(tmp_path):
    hours = message(1, stream="oper", stepType="avg", startStep=0, endStep=6)
    refused(tmp_path, message(0) + hours, r"stands sst of 2000-02 of stream oper and .* step avg")
    (tmp_path / "sst.grib").write_bytes(message(0, stream="edmo"))
    assert read_months(tmp_path)["sst"].shape == (1, ROWS, COLUMNS)


def test_final_months_come_before_preliminary_ones_of_another_file(tmp_path):
    late = [message(n, value=290.0, expver="0005") for n in (1, 2)]
    (tmp_path / "a.grib").write_bytes(b"".join(late))
    final = [message(n, expver="0001") for n in (0, 1)]
    (tmp_path / "b.grib").write_bytes(b"".join(final))
    months = read_months(tmp_path)
    assert months.version.values.tolist() == [1, 1, 5]
    assert months["sst"][:, 5, 5].values == pytest.approx([280, 280, 290], abs=0.1)
    refused(tmp_path, message(2, expver="0005"), r"a.grib and .*sst of 2000-03 stands more than")


def test_grids_are_read_in_any_order_of_points(tmp_path):
    (tmp_path / "rows.grib").write_bytes(message(0))
    handle = eccodes.codes_new_from_message(message(1))
    columns = eccodes.codes_get_values(handle).reshape(ROWS, COLUMNS).T.ravel()
    eccodes.codes_set(handle, "jPointsAreConsecutive", 1)
    eccodes.codes_set_values(handle, columns)
    (tmp_path / "columns.grib").write_bytes(eccodes.codes_get_message(handle))
    months = read_months(tmp_path)
    np.testing.assert_allclose(months["sst"][1], months["sst"][0], atol=1e-3)


def test_a_gaussian_grid_is_read(tmp_path):
    handle = eccodes.codes_grib_new_from_samples("regular_gg_sfc_grib1")
    for key, setting in {"paramId": 34, "stream": "moda", "dataDate": 20000101}.items():
        eccodes.codes_set(handle, key, setting)
    rows, columns = (eccodes.codes_get(handle, key) for key in ("Nj", "Ni"))
    field = 280 + np.arange(rows * columns).reshape(rows, columns) / columns
    eccodes.codes_set_values(handle, field.ravel())
    (tmp_path / "sst.grib").write_bytes(eccodes.codes_get_message(handle))
    months = read_months(tmp_path)
    np.testing.assert_allclose(months["sst"][0], field, atol=1e-2)
    latitudes = months.latitude.values
    np.testing.assert_allclose(latitudes, -latitudes[::-1])
    assert np.ptp(np.diff(latitudes)) > 1e-4  # not in equal steps


def test_a_wrong_description_of_the_grid_is_reported(tmp_path):
    words = "sst of 2000-01 has a wrong description of its grid .*grib_set"
    refused(tmp_path, message(0, jScansPositively=1), words)
    handle = eccodes.codes_new_from_message(message(0))
    eccodes.codes_set(handle, "gridType", "lambert")
    refused(tmp_path, eccodes.codes_get_message(handle), "has the grid lambert, expected regular")


def test_a_month_on_another_grid_is_named(tmp_path):
    other = message(1, latitudeOfFirstGridPoint=58_000, latitudeOfLastGridPoint=-2_000)
    words = "sst of 2000-02 has another grid than sst of 2000-01"
    refused(tmp_path, message(0) + other, words)


def test_a_file_that_changes_after_opening_is_reported(tmp_path):
    (tmp_path / "sst.grib").write_bytes(b"".join(message(n) for n in range(3)))
    months = read_months(tmp_path)
    (tmp_path / "sst.grib").write_bytes(message(0) + message(1)[:500])
    with pytest.raises(DataError, match=r"sst.grib: sst of 2000-02 cannot be read .*damaged"):
        months["sst"].compute()


def test_without_its_library_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "eccodes", None)
    refused(tmp_path, b"GRIB", "without the package eccodes .*pip install eccodes")


def test_only_requested_months_are_decoded(tmp_path, monkeypatch):
    (tmp_path / "sst.grib").write_bytes(b"".join(message(n) for n in range(36)))
    decoded = []
    get_array = eccodes.GRIBMessage.get_array

    def counting(message: Any, key: str) -> np.ndarray:
        decoded.append(key)
        return get_array(message, key)

    monkeypatch.setattr(eccodes.GRIBMessage, "get_array", counting)
    months: xarray.Dataset = read_months(tmp_path)
    assert "values" not in decoded
    months["sst"][13].compute()
    assert decoded.count("values") == 12


def test_months_from_1940_on_are_read(tmp_path):
    contents = message(0, dataDate=19400101) + message(0, dataDate=19400201)
    (tmp_path / "sst.grib").write_bytes(contents)
    assert list(map(month_name, read_months(tmp_path).time.values)) == ["1940-01", "1940-02"]
