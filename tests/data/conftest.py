"""Spike streams and stores that several tests of data read."""

from __future__ import annotations

import shutil

import pytest

from tests.data.scenes import film
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence

SEQUENCES = ("train/GOPR0001_11_00", "train/GOPR0002_11_00", "test/GOPR0003_11_00")


@pytest.fixture(scope="session")
def pristine_raw_data(tmp_path_factory):
    """A small data set of three sequences with three exposures each; not to be changed."""
    root = tmp_path_factory.mktemp("dataset")
    for seed, name in enumerate(SEQUENCES):
        write_sequence(
            root / name, film(seed, 34), frames_per_exposure=11, sensor=SimulatedSensor(SEED=seed)
        )
    return root


@pytest.fixture(scope="session")
def raw_data_without_spikes(pristine_raw_data, tmp_path_factory):
    """The small data set without its spikes; not to be changed."""
    root = tmp_path_factory.mktemp("plain") / "dataset"
    return shutil.copytree(pristine_raw_data, root, ignore=shutil.ignore_patterns("spike"))


@pytest.fixture
def dataset(pristine_raw_data, tmp_path):
    """A copy of the small data set that a test may damage."""
    return shutil.copytree(pristine_raw_data, tmp_path / "dataset")
