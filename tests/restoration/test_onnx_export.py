"""Exported models, compared with PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


from tests.helpers.small_run import arrays, private_words, write_light_run
from vrtspike.commands.main import run_command
from vrtspike.models.shuffled_spikes import ShuffledSpikes
from vrtspike.restoration.inference.tiling import Tiling
from vrtspike.restoration.inputs.input_clip import open_clip
from vrtspike.restoration.loading import load
from vrtspike.restoration.onnx_export import TOLERANCE, export_model
from vrtspike.system.errors import ConfigError, RunError

pytestmark = pytest.mark.slow


def test_clips_of_odd_sizes_are_restored_as_by_pytorch(light_run, exported, sequence):
    frames, spikes = arrays(sequence)
    run, other = load(light_run, device="cpu"), load(exported)
    assert (other.run.name, other.weights) == (run.run.name, run.weights)
    assert run.limits is not None
    assert other.limits == run.limits
    assert repr(other) == (
        "small_light (0123456789ab), ONNX file, float32 on cpu\n"
        "takes blurry frames and spikes, in 4 bins per frame; "
        "frames are 2 times as large as the sensor"
    )
    for rows, columns, count in ((26, 34, 5), (14, 58, 1)):
        clip = frames[:count, :rows, :columns]
        sensed = [part[:, : rows // 2, : columns // 2] for part in spikes[:count]]
        exported_result, expected = other.restore(clip, sensed), run.restore(clip, sensed)
        # A value beside the middle between two grey values may fall to either side.
        assert np.abs(exported_result.astype(int) - expected).max() <= 1
        assert (exported_result != expected).mean() < 1e-3
        assert (exported_result != clip).mean() > 0.5
    with_other = other.restore(clip, [part[::-1] for part in sensed])
    assert (with_other != exported_result).any()


@pytest.mark.parametrize("frames", [1, 2])
def test_windows_of_a_file_have_the_spikes_of_the_frames_beside_them(exported, sequence, frames):
    model = load(exported)
    clip = open_clip(model.run, sequence / "blur", sequence / "spike")
    whole = np.stack(list(model.restore_source(clip, Tiling(0, 0, 0, 0))))
    windows = Tiling(0, 0, frames, 0, neighbors=True)
    assert model.tiling(clip).neighbors
    restored = np.stack(list(model.restore_source(clip, windows)))
    assert np.abs(restored.astype(int) - whole).max() <= 1
    alone = np.stack(list(model.restore_source(clip, replace(windows, neighbors=False))))
    assert np.abs(alone.astype(int) - whole).max() > 1


def test_a_pack_in_half_precision_is_exported(light_run, tmp_path, sequence):
    assert not run_command(["pack", str(light_run), "-o", str(tmp_path / "half"), "--half"])
    assert not run_command(["export", str(tmp_path / "half"), "-o", str(tmp_path / "half.onnx")])
    half, half_file = load(tmp_path / "half", device="cpu"), load(tmp_path / "half.onnx")
    assert half_file.weights == half.weights != load(light_run, device="cpu").weights
    clip = arrays(sequence)
    np.testing.assert_allclose(half_file.restore(*clip), half.restore(*clip).astype(int), atol=1)


@pytest.mark.endurance
def test_a_model_without_spikes_is_exported(small_run, tmp_path, sequence):
    write_light_run(small_run, tmp_path / "plain", use_spike=False)
    run = load(tmp_path / "plain", device="cpu")
    assert export_model(run, tmp_path / "plain.onnx") <= TOLERANCE
    frames, _ = arrays(sequence)
    restored = load(tmp_path / "plain.onnx").restore(frames[:, :22])
    np.testing.assert_allclose(restored, run.restore(frames[:, :22]).astype(int), atol=1)


def test_vrt_is_refused_with_the_reason(small_run, tmp_path):
    with pytest.raises(ConfigError, match=r"deformable convolutions.*spike_nafnet"):
        export_model(load(small_run.train, device="cpu"), tmp_path / "vrt.onnx")
    assert not list(tmp_path.iterdir())


def test_a_control_is_refused_with_the_reason(light_run, tmp_path):
    model = load(light_run, device="cpu")
    control = ShuffledSpikes(model.network, bins=4, neighbors=False, one_by_one=True)
    with pytest.raises(ConfigError, match=r"small_light: MODEL.SPIKE_ORDER is shuffled, .* not e"):
        export_model(replace(model, network=control), tmp_path / "control.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.endurance
def test_a_file_with_other_results_is_not_written(light_run, tmp_path):
    """The comparison sees a network that was exported with other statistics."""
    model = load(light_run, device="cpu")
    changed = replace(model.statistics, mean=model.statistics.mean + 0.1)
    model = replace(model, statistics=changed)
    with pytest.raises(RunError, match=r"differs from PyTorch by .*nothing was written"):
        export_model(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_file_holds_no_private_words(small_run, exported):
    contents = exported.read_bytes()
    assert not [word for word in private_words(small_run) if word in contents]
