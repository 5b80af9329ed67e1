from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.simulation.sensor import interpolate, simulate_spikes
from vrtspike.errors import DataError
from vrtspike.io.images import luma


def frames(count, speed):
    return [luma(frame) / np.float32(255) for frame in film(7, count, 64, 96, speed)]


@pytest.mark.parametrize("how", ["linear", "flow"])
def test_ends_are_the_frames_and_values_stay_in_range(how):
    first, second = frames(2, 3)
    between = interpolate(first, second, how)
    np.testing.assert_allclose(between(0.0), first, atol=1e-6)
    np.testing.assert_allclose(between(1.0), second, atol=1e-6)
    middle = between(0.5)
    assert middle.dtype == np.float32
    assert 0 <= middle.min() <= middle.max() <= 1


def test_linear_interpolation_mixes_by_the_share_of_time():
    first, second = frames(2, 3)
    between = interpolate(first, second, "linear")
    for share in (0.125, 0.25, 0.875):
        np.testing.assert_allclose(between(share), (1 - share) * first + share * second, atol=1e-6)


@pytest.mark.parametrize("place", [2, 4, 6])
def test_flow_moves_what_linear_interpolation_fades(place):
    """The first and the last of nine frames, and one between them as the truth."""
    first, truth, second = (frames(9, 1)[n] for n in (0, place, 8))
    inside = np.s_[8:-8, 12:-12]
    errors = {
        how: np.abs(interpolate(first, second, how)(place / 8) - truth)[inside].mean()
        for how in ("linear", "flow")
    }
    assert errors["flow"] < 0.5 * errors["linear"]


def test_the_simulator_uses_it():
    scene = film(7, 3, 64, 96, 4)
    linear, flow = (simulate_spikes(scene, interpolation=how) for how in ("linear", "flow"))
    assert linear.shape == flow.shape
    assert 0.001 < (linear != flow).mean() < 0.2
    assert linear.mean() == pytest.approx(flow.mean(), rel=0.05)


def test_frames_too_small_for_flow():
    tiny = np.zeros((8, 40), np.float32)
    with pytest.raises(DataError, match="8 x 40 are too small"):
        interpolate(tiny, tiny, "flow")
