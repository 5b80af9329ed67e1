"""Fixtures of the tests of the checks of a data set."""

from __future__ import annotations

import shutil

import pytest

from tests.data.checks.sequences import OTHER, SEQUENCE, slow_film
from vrtspike.data.simulation.sequence import write_sequence


@pytest.fixture(scope="session")
def five(tmp_path_factory):
    """A sequence of five exposures, with spikes; not to be changed."""
    root = tmp_path_factory.mktemp("five")
    for seed, name in enumerate((SEQUENCE, OTHER)):
        write_sequence(root / name, slow_film(seed, 56), frames_per_exposure=11)
    return root


@pytest.fixture(params=[True, False], ids=["with spikes", "without spikes"])
def raw(request, five, tmp_path):
    """A copy of the sequence that a test may change."""
    ignored = shutil.ignore_patterns() if request.param else shutil.ignore_patterns("spike")
    return shutil.copytree(five, tmp_path / "raw", ignore=ignored)


@pytest.fixture
def spiked(five, tmp_path):
    """A copy of the sequence, with spikes."""
    return shutil.copytree(five, tmp_path / "raw")
