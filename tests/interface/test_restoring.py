"""Restoration in one call, of arrays and of files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.small_run import arrays, small_run
from vrtspike.interface.restoring import restore
from vrtspike.io.images import read_rgb
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import ConfigError

__all__ = ["small_run"]

# Random weights make frames worse.
pytestmark = pytest.mark.filterwarnings("ignore:warning. frames that came out worse")


@pytest.fixture(scope="module")
def model(small_run) -> TrainedModel:
    """The model of the small run."""
    return load(small_run.train, device="cpu")


@pytest.fixture
def clip(small_run):
    """The raw files of a test sequence."""
    return small_run.raw / "test" / "b"


def test_arrays_and_files_are_restored_alike(small_run, clip, model):
    frames, spikes = arrays(clip)
    expected = model.restore(frames, spikes)
    np.testing.assert_array_equal(restore(frames, spikes, model), expected)
    # Paths as text, and the model by its folder.
    restored = restore(str(clip / "blur"), str(clip / "spike"), small_run.train)
    np.testing.assert_array_equal(restored, expected)
    assert restored.dtype == np.uint8
    simulated = restore(clip / "blur", None, model, simulate_spikes=True)
    np.testing.assert_array_equal(simulated, model.restore(frames, simulate_spikes=True))


def test_an_output_folder_takes_the_frames(clip, model, tmp_path):
    result = restore(clip / "blur", clip / "spike", model, output=tmp_path / "out")
    expected = restore(clip / "blur", clip / "spike", model)
    written = np.stack([read_rgb(path) for path in result.files])
    np.testing.assert_array_equal(written, expected)


def test_arrays_with_an_output_folder_are_refused(clip, model, tmp_path):
    frames, spikes = arrays(clip)
    for inputs, message in (
        ((frames, clip / "spike"), "frames: found ndarray, expected the path of a folder or file"),
        ((clip / "blur", spikes), "spikes: found list, expected the path of a folder or file"),
    ):
        with pytest.raises(ConfigError, match=message):
            restore(*inputs, model, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_spike_files_of_another_sequence_give_a_warning(small_run, clip, model):
    other = small_run.raw / "test" / "c"
    with pytest.warns(UserWarning, match=r"spikes that do not fit \(5\)"):
        restore(clip / "blur", other / "spike", model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Without an output nothing is compared.
        restore(clip / "blur", clip / "spike", model)
