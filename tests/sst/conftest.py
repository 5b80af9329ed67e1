"""Small seas for the tests of this room."""

from __future__ import annotations

import pytest

from vrtspike.sst.area import Area
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.prepare import prepare
from vrtspike.sst.store import PreparedStore
from vrtspike.sst.years import Years

PACIFIC = Area("Pacific", lon=[120, -80], lat=[-40, 40])
"""Across the date line; the globe's continent and cape lie in it."""
YEARS = Years((1980, 1984), (1985, 1986), (1987, 1988))
GLOBE = Globe(years=9, step=8.0, south=-56.0)


@pytest.fixture(scope="session")
def download(tmp_path_factory):
    """A folder with one small file of nine years; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("era5")
    write_example(folder, GLOBE)
    return folder


@pytest.fixture(scope="session")
def store(download, tmp_path_factory) -> PreparedStore:
    """The Pacific of it at 8 degrees: 10 rows, 20 columns."""
    return prepare(download, PACIFIC, 8, tmp_path_factory.mktemp("prepared") / "p.json", YEARS)
