from __future__ import annotations

import shutil

import pytest

from vrtspike.data.simulate_sequence import write_sequence

from .scenes import film

SEQUENCES = ("train/GOPR0001_11_00", "train/GOPR0002_11_00", "test/GOPR0003_11_00")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """A small data set of three sequences with three exposures each; not to be changed."""
    root = tmp_path_factory.mktemp("dataset")
    for seed, name in enumerate(SEQUENCES):
        write_sequence(root / name, film(seed, 34), frames_per_exposure=11, seed=seed)
    return root


@pytest.fixture
def dataset(pristine, tmp_path):
    """A copy of the small data set that a test may damage."""
    return shutil.copytree(pristine, tmp_path / "dataset")
