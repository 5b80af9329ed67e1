"""Restoration in one call, of arrays and of files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.helpers.small_run import arrays
from tests.restoration.folder_runs import model
from vrtspike.api.restoring import restore
from vrtspike.io.images import read_rgb
from vrtspike.restoration.inputs.input_clip import open_clip
from vrtspike.system.errors import ConfigError, UserError

__all__ = ["model"]

# Random weights make frames worse.
pytestmark = pytest.mark.filterwarnings("ignore:warning. frames that came out worse")


def test_arrays_and_files_are_restored_alike(small_run, sequence, model):
    frames, spikes = arrays(sequence)
    expected = model.restore(frames, spikes)
    np.testing.assert_array_equal(restore(frames, spikes, model), expected)
    # Paths as text, and the model by its folder.
    restored = restore(str(sequence / "blur"), str(sequence / "spike"), small_run.train)
    np.testing.assert_array_equal(restored, expected)
    assert restored.dtype == np.uint8
    simulated = restore(sequence / "blur", None, model, simulate_spikes=True)
    np.testing.assert_array_equal(simulated, model.restore(frames, simulate_spikes=True))


def test_an_output_folder_takes_the_frames(sequence, model, tmp_path):
    result = restore(sequence / "blur", sequence / "spike", model, output=tmp_path / "out")
    expected = restore(sequence / "blur", sequence / "spike", model)
    written = np.stack([read_rgb(path) for path in result.files])
    np.testing.assert_array_equal(written, expected)


def test_arrays_with_an_output_folder_are_refused(sequence, model, tmp_path):
    frames, spikes = arrays(sequence)
    for inputs, message in (
        (
            (frames, sequence / "spike"),
            "frames: found ndarray, expected the path of a folder or file",
        ),
        ((sequence / "blur", spikes), "spikes: found list, expected the path of a folder or file"),
    ):
        with pytest.raises(ConfigError, match=message):
            restore(*inputs, model, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_spike_files_of_another_sequence_give_a_warning(small_run, sequence, model):
    other = small_run.raw / "test" / "c"
    with pytest.warns(UserWarning, match=r"spikes that do not fit \(5\)") as caught:
        restore(sequence / "blur", other / "spike", model)
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Without an output nothing is compared.
        restore(sequence / "blur", sequence / "spike", model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": "no/frames"}, "no/frames"),
        ({"frames": np.zeros((5, 48, 64))}, r"frames: found float64 of shape \(5, 48, 64\)"),
        ({"spikes": "no/spikes"}, "no/spikes: no such file or folder"),
        ({"spikes": 5}, "spikes: found int, expected an array or a path"),
        ({"simulate_spikes": True}, "give either recorded spikes or have spikes simulated"),
        ({"sensor": (24,)}, r"sensor: found \(24,\), expected its rows and columns"),
        ({"sensor": 24}, "sensor: found 24, expected its rows and columns"),
        ({"sensor": (0, 32)}, r"sensor: found \(0, 32\), expected its rows and columns"),
        ({"sensor": (24, 40)}, "sensor size 24 x 40 does not fit frames"),
        ({"spikes": [], "sensor": (24, 32)}, "sensor: only spikes in files take it"),
        ({"spikes": None, "layout": "s_sdm"}, "layout: describes recorded spikes"),
        ({"layout": "s-smd"}, "layout: found 's-smd'; did you mean s_sdm.; expected one of"),
        ({"layout": ""}, "layout: found ''; expected one of"),
        ({"exposures": []}, "exposures: only spikes in memory take them"),
        ({"spikes": [], "exposures": 5}, "exposures: found 5, expected a vrtspike.Exposure"),
        ({"spikes": [], "exposures": [(0, 9)]}, r"exposures: found \[\(0, 9\)\], expected a vrt"),
    ],
)
def test_a_wrong_value_of_an_option_is_refused(sequence, model, options, message):
    chosen = {"frames": sequence / "blur", "spikes": sequence / "spike"} | options
    with pytest.raises(UserError, match=message):
        open_clip(model.run, **chosen)
    with pytest.raises(UserError, match=message):
        model.restore(**chosen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "no/model"}, "no/model"),
        ({"output": "out.mp4"}, "output: found out.mp4, expected a folder"),
    ],
)
def test_a_wrong_model_or_output_is_refused(sequence, model, options, message):
    chosen = {"model": model} | options
    with pytest.raises(UserError, match=message):
        restore(sequence / "blur", sequence / "spike", **chosen)


@pytest.mark.parametrize("tile", [-2, 31, "large", 32.0])
def test_a_wrong_tile_is_refused(sequence, model, tile):
    with pytest.raises(ConfigError, match=r"tile: found .*expected 0 or a positive multiple of 2"):
        model.restore(sequence / "blur", sequence / "spike", tile=tile)


def test_sizes_may_be_numbers_of_numpy(sequence, model):
    sensor = (np.int64(24), np.int64(32))
    restored = model.restore(
        sequence / "blur", sequence / "spike", sensor=sensor, tile=np.int64(32)
    )
    assert len(list(restored)) == 5
