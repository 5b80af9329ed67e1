from __future__ import annotations

import numpy as np

from tests.deblurring.evaluation.conftest import BINS
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.voxels import voxelize
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.deblurring.evaluation.sources import sharp_frame, stored_sequence
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


def test_a_store_without_spikes_gives_frames_only(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (3, 2, 15, 21, 3), dtype=np.uint8)
    layout = StoreLayout(("1", "2", "3"), (), (15, 21), None, BINS)
    write_store(tmp_path / "s.zarr", layout, (StoredFrame(*pair) for pair in frames))
    source = stored_sequence(Store(tmp_path / "s.zarr"))
    window = source.read(slice(1, 3))
    np.testing.assert_array_equal(window.blur, frames[1:, 0])
    assert (window.counts, window.bin_steps, source.gain(), source.ratio) == (None, None, None, 1)
