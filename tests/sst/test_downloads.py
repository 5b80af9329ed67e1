"""The months of a download, and those that it lacks."""

from __future__ import annotations

import pytest
import xarray

from vrtspike.sst.downloads import is_download
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.reading import check_download

SMALL = Globe(first_year=2000, years=2, step=30.0)


@pytest.fixture
def download(tmp_path):
    """Two years in one file, with ice."""
    write_example(tmp_path, SMALL)
    return tmp_path


def change(folder, function):
    (path,) = folder.glob("*.nc")
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    path.unlink()
    function(dataset).to_netcdf(path, engine="h5netcdf")


def test_a_download_without_gaps(download, tmp_path):
    assert is_download(download)
    assert check_download(download) == ("months: 2000-01 to 2001-12, with sea ice", [])


def test_missing_months_are_named(download):
    change(download, lambda dataset: dataset.isel(valid_time=[0, 1, 2, 5, 6, 7]))
    months, (fault,) = check_download(download)
    assert months == "months: 2000-01 to 2000-08, with sea ice"
    assert fault == (
        f"{download}: found no sst of 2 months (2000-04, 2000-05), expected every month from "
        "2000-01 to 2000-08; download them"
    )


def test_a_download_may_have_no_ice(download):
    change(download, lambda dataset: dataset.drop_vars("siconc"))
    assert check_download(download) == ("months: 2000-01 to 2001-12, without sea ice", [])


def test_ice_of_some_months(download):
    change(download, lambda dataset: dataset[["sst"]])
    ice = download / "ice"
    ice.mkdir()
    write_example(ice, SMALL)
    change(ice, lambda dataset: dataset[["siconc"]].isel(valid_time=slice(0, 23)))
    (path,) = ice.glob("*.nc")
    path.rename(download / "ice.nc")
    _, (fault,) = check_download(download)
    assert fault.startswith(f"{download}: found no siconc of 1 months (2001-12), expected every")


def test_a_folder_of_other_files_is_no_download(tmp_path):
    (tmp_path / "a.png").touch()
    assert not is_download(tmp_path)
    assert not is_download(tmp_path / "nosuch")
