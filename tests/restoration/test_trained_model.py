"""`TrainedModel`: inputs, precision, memory, unfinished runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers.small_run import arrays, recorded_clip, write_run
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.models import build_model
from vrtspike.restoration.inference.tiling import Tiling
from vrtspike.restoration.loading import load
from vrtspike.restoration.tiled_inference import restore_frames
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import ConfigError, DataError, RunError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def plain(small_run, tmp_path_factory) -> TrainedModel:
    """A model without spikes."""
    train = tmp_path_factory.mktemp("results") / "plain"
    chosen = small_run.settings.model_dump(mode="json")
    chosen["MODEL"]["USE_SPIKE"] = False
    settings = DeblurringSettings.model_validate(chosen)
    write_run(train, "plain", settings, small_run.dataset, build_model(settings))
    return load(str(train), device="cpu")


def test_a_model_shows_its_run_size_and_inputs(model, plain):
    weights = sum(parameter.numel() for parameter in model.network.parameters()) / 1e6
    assert repr(model) == (
        f"small (0123456789ab), {weights:.2f} M weights, float32 on cpu\n"
        "takes blurry frames and spikes, in 4 bins per frame"
    )
    first, second = repr(plain).splitlines()
    assert first.startswith("plain (0123456789ab), ")
    assert second == "takes blurry frames alone"


def test_arrays_are_restored_as_files_are(model, sequence):
    frames, spikes = arrays(sequence)
    source = recorded_clip(sequence / "blur", sequence / "spike", 4)
    expected = np.stack(list(restore_frames(model.tile_model, source, Tiling(0, 0, 3, 1))))
    calls: list[tuple[int, int]] = []
    restored = model.restore(frames, spikes, progress=lambda *done: calls.append(done))
    np.testing.assert_array_equal(restored, expected)
    assert calls == [(1, 2), (2, 2)]
    np.testing.assert_array_equal(model.restore(frames, np.concatenate(spikes)), expected)
    assert np.abs(restored.astype(int) - frames).max() > 5
    # Frames of 48 x 64 pixels in tiles of 32.
    tiled = model.restore(frames, spikes, tile=32)
    assert 0 < np.abs(tiled.astype(int) - expected).mean() < 2
    simulated = model.restore(frames, simulate_spikes=True)
    assert 0 < np.abs(simulated.astype(int) - expected).mean()
    with pytest.raises(DataError, match="exposures: found 0, expected one for each"):
        model.restore(frames, spikes, exposures=[])
    with pytest.raises(ConfigError, match="exposures: only spikes in memory take them"):
        model.restore(frames, simulate_spikes=True, exposures=[])


def test_half_precision_is_near_and_not_equal(small_run, model, sequence):
    frames, spikes = arrays(sequence)
    half = load(small_run.train, device="cpu", precision="bfloat16")
    assert half.precision == "bfloat16"
    difference = half.restore(frames, spikes).astype(int) - model.restore(frames, spikes)
    assert 0 < np.abs(difference).mean() < 1


@pytest.mark.parametrize(
    ("name", "with_spikes", "simulate", "message"),
    [
        ("model", False, False, r"run small \(0123456789ab\) takes spikes .*have spikes simulated"),
        ("model", True, True, "give either recorded spikes"),
        ("plain", True, False, r"was trained without spikes.*; leave out recorded"),
        ("plain", False, True, "leave out recorded and simulated spikes"),
    ],
)
def test_spikes_go_with_models_that_take_them(
    request, sequence, name, with_spikes, simulate, message
):
    frames, spikes = arrays(sequence)
    trained = request.getfixturevalue(name)
    with pytest.raises(ConfigError, match=message):
        trained.restore(frames, spikes if with_spikes else None, simulate_spikes=simulate)


def test_a_model_without_spikes_restores_frames_alone(plain, sequence):
    frames, _ = arrays(sequence)
    assert plain.statistics is None
    # A new network returns its input.
    assert np.abs(plain.restore(frames).astype(int) - frames).max() <= 1


def test_tiles_follow_the_free_memory(model, monkeypatch, sequence):
    frames, spikes = arrays(sequence)
    source = recorded_clip(sequence / "blur", sequence / "spike", 4)
    for tile, expected in (
        (None, Tiling(0, 8, 3, 1)), (20, Tiling(20, 8, 3, 1)), (12, Tiling(12, 4, 3, 1)),
        (0, Tiling(0, 8, 3, 1)),
    ):  # fmt: skip
        assert model.tiling(source, tile) == expected
    free = "vrtspike.restoration.inference.tiling.free_memory"
    monkeypatch.setattr(free, lambda device: 2e7)
    assert 0 < model.tiling(source).size < 48
    monkeypatch.setattr(free, lambda device: 1e4)
    with pytest.raises(RunError, match="do not fit"):
        model.restore(frames, spikes)
    assert model.tiling(source, 32).size == 32
    with pytest.raises(ConfigError, match=r"^tile: found 63, expected 0 or a positive multiple"):
        model.tiling(source, 63)


def test_full_memory_and_values_that_are_not_finite_are_refused(model, sequence):
    frames, spikes = arrays(sequence)

    def compute(batch):
        raise torch.OutOfMemoryError("no byte left")

    full = replace(model, tile_model=compute)
    with pytest.raises(RunError, match=r"memory .* is full with .*tile.*no byte left"):
        full.restore(frames, spikes, tile=32)
    broken = replace(
        model, tile_model=lambda tiles: tiles.blur.numpy().transpose(0, 1, 4, 2, 3) * np.nan
    )
    with pytest.raises(RunError, match="frame 000001: the model gives values that are not finite"):
        broken.restore(frames, spikes)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_restores_in_half_precision_within_the_predicted_memory(small_run, model, sequence):
    frames, spikes = arrays(sequence)
    gpu = load(small_run.train)
    assert gpu.device.type == "cuda"
    assert gpu.precision in ("bfloat16", "float16")
    difference = gpu.restore(frames, spikes, tile=0).astype(int) - model.restore(frames, spikes)
    assert np.abs(difference).mean() < 1
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    blur = torch.zeros(1, 3, 3, 256, 256, device="cuda")
    voxels = torch.zeros(1, 3, 4, 256, 256, device="cuda")
    with torch.inference_mode(), torch.autocast("cuda", getattr(torch, gpu.precision)):
        gpu.network(blur, voxels)
    taken = torch.cuda.max_memory_allocated() - before
    assert taken <= gpu.settings.MODEL.network.bytes_per_pixel * 3 * 256**2
