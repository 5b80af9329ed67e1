"""Gain of a sequence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.scenes import film
from vrtspike.data.raw.layouts.spk_gopro import spk_gopro_exposure
from vrtspike.data.simulation.sensor import simulate_spikes, synthesize_blur
from vrtspike.data.voxels.counting import voxelize
from vrtspike.data.voxels.gain import GainEstimator
from vrtspike.system.errors import DataError


def exposures():
    """Blurry frame and spikes of two exposures of different lengths."""
    for seed, count in ((0, 7), (1, 11)):
        frames = film(seed, count)
        yield synthesize_blur(frames), simulate_spikes(frames, seed=seed)


def measured(pairs, bins=4):
    meter = GainEstimator()
    for blur, spikes in pairs:
        counts = voxelize(spikes, bins, spk_gopro_exposure(len(spikes)).sharp)
        meter.update(blur, counts.sum(axis=0), len(spikes))
    return meter.gain("train/a")


def test_the_gain_is_the_least_squares_fit_over_all_frames_and_pixels():
    products, squares = 0.0, 0.0
    for blur, spikes in exposures():
        gray = np.rint(blur @ np.array([0.299, 0.587, 0.114])) / 255
        height, width = spikes.shape[1:]
        gray = gray.reshape(height, 2, width, 2).mean(axis=(1, 3))
        rate = spikes.mean(axis=0)
        products += (gray * rate).sum()
        squares += (rate**2).sum()
    gain = measured(exposures())
    assert gain == pytest.approx(products / squares, rel=1e-5)
    # Neither bins nor the order of the frames have a say.
    assert measured(list(exposures())[::-1]) == gain
    assert measured(exposures(), bins=9) == gain


def test_without_spikes_or_light_there_is_no_gain():
    blur, spikes = next(exposures())
    with pytest.raises(DataError, match=r"train/a: not a single spike .* \(1\)"):
        measured([(blur, np.zeros_like(spikes))])
    with pytest.raises(DataError, match=r"blurry frames \(2\) show light"):
        measured([(np.zeros_like(blur), spikes)] * 2)
    assert measured([(blur, np.zeros_like(spikes)), (blur, spikes)]) > 1
