"""The baseline from spikes, against the raw spike files."""

from __future__ import annotations

from typing import get_args

import numpy as np

from vrtspike.data.exposure import Exposure
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.store.metadata import StoreMetadata
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import write_store
from vrtspike.deblurring_settings.evaluation import SpikesAloneName
from vrtspike.restoration.spikes_alone import RECONSTRUCTIONS, instant_picture, spikes_alone


def test_every_reconstruction_can_be_chosen():
    assert set(get_args(SpikesAloneName)) == RECONSTRUCTIONS.keys()


def test_a_shorter_exposure_begins_and_ends_where_its_own_spikes_do(tmp_path):
    """The store pads its bits with zeros, which are no steps without a spike; and has context."""
    rng = np.random.default_rng(0)
    steps = (24, 40)
    exposures = [(rng.random((count, 2, 8)) < 0.2).astype(np.uint8) for count in steps]
    exposures[0][4:8] = 0  # nothing before the sharp step, so that all of it is the interval
    metadata = StoreMetadata(
        ("1", "2"),
        steps,
        rgb_size=(4, 16),
        spike_size=(2, 8),
        bins=1,
        exposures=(Exposure(4, 20, 8), spk_gopro_exposure(steps[1])),
    )
    frames = [
        {
            "blur": rng.integers(1, 256, (4, 16, 3), dtype=np.uint8),
            "sharp": rng.integers(0, 256, (4, 16, 3), dtype=np.uint8),
            "voxels": spikes.sum(axis=0, dtype=np.uint8)[None],
            "bits": np.packbits(spikes, axis=2, bitorder="little"),
        }
        for spikes in exposures
    ]
    _, gain = write_store(tmp_path / "a.zarr", metadata, frames)
    result = spikes_alone(Store(tmp_path / "a.zarr"), RECONSTRUCTIONS["tfi"], 0)
    np.testing.assert_allclose(result, 255 * gain * exposures[0][4:20].mean(axis=0), rtol=1e-5)


def test_the_picture_is_the_rate_about_the_instant_as_bright_as_the_blurry_frame():
    random = np.random.default_rng(5)
    spikes = (random.random((60, 8, 16)) < random.random((8, 16))).astype(np.uint8)
    blurry = random.integers(20, 120, (16, 32, 3), dtype=np.uint8)
    # An exposure of 32 steps has a window of 12.
    picture = instant_picture(PackedSpikes.pack(spikes), Exposure(10, 42, 30), blurry, "spikes")
    gray = blurry @ np.array([0.299, 0.587, 0.114])
    gray = gray.reshape(8, 2, 16, 2).mean(axis=(1, 3))
    mean = spikes[10:42].mean(axis=0)
    gain = (gray * mean).sum() / (mean**2).sum()
    expected = (gain * spikes[24:36].mean(axis=0)).clip(0, 255)
    assert np.abs(picture - expected).max() <= 1
    # At the ends of the exposure the window is shorter: 2 steps on each side.
    for sharp, window in ((12, slice(10, 14)), (40, slice(38, 42)), (42, slice(10, 42))):
        exposure = Exposure(10, 42, sharp)
        picture = instant_picture(PackedSpikes.pack(spikes), exposure, blurry, "spikes")
        assert np.abs(picture - (gain * spikes[window].mean(axis=0)).clip(0, 255)).max() <= 1
