"""The data set of the clips."""

from __future__ import annotations

import pytest

from tests.data.clips.filmed import FRAMES
from tests.data.prepared import prepared
from tests.data.scenes import film
from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.data.simulation.sequence import write_sequence


@pytest.fixture(scope="session")
def filmed(tmp_path_factory):
    """A data set of three filmed sequences, with eight bins."""
    folder = tmp_path_factory.mktemp("clips")
    for seed, (name, count) in enumerate(FRAMES.items()):
        write_sequence(folder / "raw" / name, film(seed, 3 * count + 1), frames_per_exposure=3)
    return load_dataset(prepared(folder / "raw", FRAMES, folder, bins=8))
