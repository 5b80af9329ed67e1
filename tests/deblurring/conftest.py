"""A tiny run of deblurring, for the files that test parts of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deblurring.tiny_run import write_project, write_run

MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def deblurring_project(make_once: MakeOnce) -> Path:
    """A folder with a data set, a configuration and a preset."""
    return make_once("deblurring", write_project)


@pytest.fixture(scope="session")
def run_folder(deblurring_project: Path, make_once: MakeOnce) -> Path:
    """The folder of an undisturbed run of the preset."""
    return make_once("deblurring-run", lambda folder: write_run(deblurring_project, folder))
