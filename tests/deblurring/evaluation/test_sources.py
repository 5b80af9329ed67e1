from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.evaluation.conftest import BINS
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.voxels import voxelize
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.deblurring.evaluation.sources import (
    resize_image,
    scaled,
    sharp_frame,
    stored_sequence,
)
from vrtspike.io.images import read_rgb


def test_a_stored_sequence_gives_the_raw_frames_and_counts(small_run, stored, sequence):
    store = Store(load_dataset(small_run.dataset).split("test")[0].store)
    window = stored.read(slice(1, 3))
    names = stored.names[1:3]
    for index, name in enumerate(names):
        np.testing.assert_array_equal(
            window.blur[index], read_rgb(sequence / "blur" / f"{name}.png")
        )
        spikes = read_spikes(sequence / "spike" / f"{name}.dat", 24, 32)
        np.testing.assert_array_equal(
            window.counts[index], voxelize(spikes, BINS, spk_gopro_exposure(len(spikes)).sharp)
        )
        np.testing.assert_array_equal(
            sharp_frame(store, index + 1), read_rgb(sequence / "sharp" / f"{name}.png")
        )
    assert window.bin_steps.tolist() == [[21, 3, 4, 28]] * 2


def test_a_scaled_source_keeps_brightness_and_rates(stored):
    half = scaled(stored, 0.5)
    assert half.size == (24, 32)
    assert half.ratio == 2
    window, whole = half.read(slice(0, 2)), stored.read(slice(0, 2))
    assert window.blur.shape == (2, 24, 32, 3)
    assert window.counts.shape == (2, BINS, 12, 16)
    expected = whole.counts.reshape(2, BINS, 12, 2, 16, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(window.counts, expected, atol=1e-5)
    assert window.blur.mean() == pytest.approx(whole.blur.mean(), abs=0.5)


def test_a_store_without_spikes_gives_frames_only(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 2, 15, 21, 3), dtype=np.uint8)
    layout = StoreLayout(("1", "2", "3"), (), (15, 21), None, BINS)
    write_store(tmp_path / "s.zarr", layout, (StoredFrame(*pair) for pair in frames))
    source = stored_sequence(Store(tmp_path / "s.zarr"))
    window = source.read(slice(1, 3))
    np.testing.assert_array_equal(window.blur, frames[1:, 0])
    assert (window.counts, window.bin_steps, source.gain(), source.ratio) == (None, None, None, 1)
    half = scaled(source, 0.5)
    assert half.size == (8, 10)
    assert half.read(slice(0, 1)).blur.shape == (1, 8, 10, 3)
    assert half.read(slice(0, 1)).counts is None


def test_resizing_averages_areas_and_interpolates_between_pixels():
    dark, bright = np.zeros(3, np.uint8), np.full(3, 100, np.uint8)
    larger = resize_image(np.array([[dark, bright]] * 2), (2, 4))
    assert larger[0, :, 0].tolist() == [0, 25, 75, 100]
    block = np.zeros((2, 4, 3), np.uint8)
    block[0, 0], block[:, 2] = 3, 1
    # Means of 0.75 and 0.5, to the nearest and to the even one.
    assert resize_image(block, (1, 2))[0, :, 0].tolist() == [1, 0]


def test_enlarged_sources_round_the_sensor_to_whole_pixels(stored):
    assert (scaled(stored, 1.3).size, scaled(stored, 0.3).size) == ((62, 84), (14, 20))
