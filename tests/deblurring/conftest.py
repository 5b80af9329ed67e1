"""A tiny run of the deblurring, for the files that test parts of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deblurring.tiny_run import write_place, write_run

MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def place(make_once: MakeOnce) -> Path:
    """A folder with a data set, a configuration and a preset."""
    return make_once("deblurring", write_place)


@pytest.fixture(scope="session")
def result(place: Path, make_once: MakeOnce) -> Path:
    """The folder of an undisturbed run of the preset."""
    return make_once("deblurring-run", lambda folder: write_run(place, folder))
