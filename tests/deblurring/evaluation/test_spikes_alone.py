"""The baseline from spikes, against the raw spike files."""

from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.evaluation.conftest import SmallRun
from vrtspike.deblurring.data.clips.dataset import load_dataset
from vrtspike.deblurring.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.deblurring.evaluation.spikes_alone import RECONSTRUCTIONS, spikes_alone

FRAMES = [f"{number:06d}" for number in range(1, 6)]
SHARP_STEP = 24
"""Of exposures of seven source frames, eight steps each: the fourth stands at step 24 of 56."""


@pytest.fixture(scope="module")
def store(small_run: SmallRun) -> Store:
    return Store(load_dataset(small_run.dataset).split("test")[0].store)


@pytest.fixture(scope="module")
def spikes(small_run: SmallRun) -> np.ndarray:
    """Spikes of test sequence b as its files hold them, (5, 56, 24, 32)."""
    folder = small_run.raw / "test" / "b" / "spike"
    return np.stack([read_spikes(folder / f"{name}.dat", 24, 32) for name in FRAMES])


def test_intervals(store, spikes):
    for number in range(5):
        found = spikes_alone(store, RECONSTRUCTIONS["tfi"], number)
        for row, column in ((0, 0), (5, 17), (23, 31)):
            times = np.flatnonzero(spikes[number, :, row, column])
            earlier, later = times[times < SHARP_STEP], times[times >= SHARP_STEP]
            rate = 1 / (later[0] - earlier[-1]) if len(earlier) and len(later) else len(times) / 56
            assert found[row, column] == pytest.approx(255 * store.gain * rate, rel=1e-4)


def test_the_window_follows_from_the_exposure(store, spikes):
    """Ten steps of 56 on either side of the instant."""
    found = spikes_alone(store, RECONSTRUCTIONS["tfp"], 2)
    rate = spikes[2, SHARP_STEP - 10 : SHARP_STEP + 10].mean(axis=0)
    np.testing.assert_allclose(found, 255 * store.gain * rate, rtol=1e-5)


def test_a_shorter_exposure_ends_where_its_own_spikes_do(tmp_path):
    """The store pads its bits with zeros; they are no steps without a spike."""
    rng = np.random.default_rng(0)
    steps = (24, 40)
    exposures = [(rng.random((count, 2, 8)) < 0.2).astype(np.uint8) for count in steps]
    exposures[0][:8] = 0  # nothing before the sharp step of 24, so that all of it is the interval
    layout = StoreLayout(
        ("1", "2"),
        steps,
        rgb_size=(4, 16),
        spike_size=(2, 8),
        bins=1,
        exposures=tuple(map(spk_gopro_exposure, steps)),
    )
    frames = [
        StoredFrame(
            blur=rng.integers(1, 256, (4, 16, 3), dtype=np.uint8),
            sharp=rng.integers(0, 256, (4, 16, 3), dtype=np.uint8),
            voxels=spikes.sum(axis=0, dtype=np.uint8)[None],
            bits=np.packbits(spikes, axis=2, bitorder="little"),
        )
        for spikes in exposures
    ]
    gain = write_store(tmp_path / "a.zarr", layout, frames).gain
    found = spikes_alone(Store(tmp_path / "a.zarr"), RECONSTRUCTIONS["tfi"], 0)
    np.testing.assert_allclose(found, 255 * gain * exposures[0].sum(axis=0) / 24, rtol=1e-5)
