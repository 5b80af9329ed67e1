"""Integrate-and-fire sensor: rates, conservation of charge, noise and pixel faults."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from tests.data.scenes import film
from vrtspike.data.simulation.sensor import (
    SimulatedSensor,
    interpolate,
    simulate_spikes,
    synthesize_blur,
)
from vrtspike.io.images import luma
from vrtspike.system.errors import DataError


def test_spike_rate_is_grey_over_theta():
    gray = np.linspace(0, 255, 16, dtype=np.uint8)
    frames = [np.tile(gray.repeat(2), (32, 1))] * 100
    for theta in (1.0, 2.0, 3.5):
        spikes = simulate_spikes(frames, theta=theta, seed=1)
        assert spikes.shape == (800, 16, 16)
        rate = spikes.mean(axis=(0, 1))
        np.testing.assert_allclose(rate, gray / 255 / theta, atol=2e-3)


def test_charge_carries_over_so_that_counts_are_off_by_less_than_one_spike():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (12, 8, 8), dtype=np.uint8)
    spikes = simulate_spikes(frames, downscale=1, seed=3)
    # Grey between frames runs linearly; after the last one it stands still.
    following = np.concatenate([frames[1:], frames[-1:]]).astype(float)
    fractions = np.arange(8)[None, :, None, None] / 8
    gray = frames[:, None] + fractions * (following - frames)[:, None]
    charge = np.cumsum(gray.reshape(96, 8, 8) / 255, axis=0)
    error = charge - 2.0 * np.cumsum(spikes, axis=0, dtype=np.int64)
    # V = V0 + charge - theta * spikes must stay in [0, theta) with V0 in [0, theta).
    assert error.min() > -2.0
    assert error.max() < 2.0
    assert (error.max(axis=0) - error.min(axis=0)).max() < 2.0 + 1e-4


def test_the_seed_decides_and_initial_charge_is_spread():
    frames = [np.full((64, 64), 128, np.uint8)] * 2
    first = simulate_spikes(frames, seed=1)
    np.testing.assert_array_equal(first, simulate_spikes(frames, seed=1))
    assert (first != simulate_spikes(frames, seed=2)).any()
    # The definition, step by step: the charge starts anywhere below theta, uniformly.
    charge = 2 * np.random.default_rng(1).random((32, 32), dtype=np.float32)
    assert charge.min() < 0.01
    assert charge.max() > 1.99
    for step in first:
        charge = charge + np.float32(128) / np.float32(255)
        np.testing.assert_array_equal(step, charge >= 2)
        charge = charge - 2 * step.astype(np.float32)


def test_noise_adds_up_between_spikes():
    # In 400 steps noise of 0.1 a step adds up to 0.1 * 20; the rest is what stays of a spike.
    counts = simulate_spikes([np.full((128, 128), 80, np.uint8)] * 50, theta=1.0, noise=0.1).sum(0)
    assert counts.std() == pytest.approx(np.sqrt(2.0**2 + 1 / 6), rel=0.05)


def test_colour_is_seen_as_luma_at_half_size():
    frame = np.zeros((4, 4, 3), np.uint8)
    frame[..., 1] = 255
    spikes = simulate_spikes([frame] * 200, seed=0)
    assert spikes.shape == (1600, 2, 2)
    np.testing.assert_allclose(spikes.mean(axis=0), 0.587 / 2, atol=2e-3)


def test_impossible_requests_are_refused():
    with pytest.raises(DataError, match=r"5 x 4, expected sides .* multiples of 2"):
        simulate_spikes([np.zeros((5, 4), np.uint8)])


@pytest.mark.parametrize(
    "options",
    [
        {"theta": 0.0},
        {"steps_per_frame": 0},
        {"downscale": 0},
        {"light_gamma": -1.0},
        {"noise": -1.0},
        {"jitter": 1.5},
        {"start_phase": -0.1},
        {"hot_pixels": 0.7, "dead_pixels": 0.7},
    ],
)
def test_impossible_sensors_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options)).upper()):
        SimulatedSensor(**{name.upper(): value for name, value in options.items()})


GRAY = [np.full((128, 128), 102, np.uint8)] * 25


def rates(frames=GRAY, **options):
    """Spikes a step of each pixel, 200 steps at a grey of 0.4: 0.2 with a perfect sensor."""
    return simulate_spikes(frames, **options, seed=2).mean(axis=0)


BLACK = [np.zeros((128, 128), np.uint8)] * 25


@pytest.mark.parametrize(
    ("frames", "options", "rate", "tolerance"),
    [
        (GRAY, {}, 0.2, 0.01),
        # Dark counts come on top of the light.
        (BLACK, {"dark_counts": 0.01}, 0.01, 0.05),
        (GRAY, {"dark_counts": 0.01}, 0.2 + 0.8 * 0.01, 0.01),
        (GRAY, {"noise": 0.1}, 0.2, 0.02),
        (GRAY, {"jitter": 0.3}, 0.2, 0.01),
        (GRAY, {"light_gamma": 2.2}, 0.4**2.2 / 2, 0.02),
    ],
)
def test_the_rate_of_a_sensor(frames, options, rate, tolerance):
    assert rates(frames, **options).mean() == pytest.approx(rate, rel=tolerance)


def test_hot_and_dead_pixels_keep_their_places():
    result = rates(hot_pixels=0.05, dead_pixels=0.1)
    assert (result == 1).mean() == pytest.approx(0.05, abs=0.01)
    assert (result == 0).mean() == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(result[(result > 0) & (result < 1)], 0.2, atol=0.006)


def test_thresholds_differ_between_pixels():
    thresholds = 0.4 / rates(theta_spread=0.1)
    assert thresholds.std() == pytest.approx(0.2, rel=0.1)
    assert np.median(thresholds) == pytest.approx(2, rel=0.01)


def test_a_late_spike_comes_a_step_later_and_none_is_lost():
    clean, late = (
        simulate_spikes(GRAY, jitter=jitter, seed=2).astype(int) for jitter in (0.0, 0.3)
    )
    behind = np.cumsum(clean, axis=0) - np.cumsum(late, axis=0)
    assert set(np.unique(behind)) == {0, 1}
    # A spike is behind for one step with this probability.
    assert behind.mean() == pytest.approx(0.2 * 0.3, rel=0.05)
    bright = simulate_spikes([np.full((8, 8), 255, np.uint8)] * 25, theta=1.0, jitter=0.3)
    assert bright.sum(axis=0).min() >= 200 - 1


def test_every_pixel_may_start_at_the_same_phase():
    spikes = simulate_spikes(GRAY, start_phase=0.5)
    assert (spikes == spikes[:, :1, :1]).all()
    # Half of the threshold of 2 is missing, 0.4 a step.
    assert spikes[:4, 0, 0].tolist() == [0, 0, 1, 0]


def test_blur_is_the_mean_linear_or_in_gamma():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (11, 6, 8, 3), dtype=np.uint8)
    plain = frames.astype(np.float64).mean(axis=0)
    assert np.abs(synthesize_blur(frames) - plain).max() <= 0.5 + 1e-3
    coded = 255 * ((frames / 255.0) ** 2.2).mean(axis=0) ** (1 / 2.2)
    assert np.abs(synthesize_blur(frames, 2.2) - coded).max() <= 0.5 + 1e-3
    assert (synthesize_blur(frames, 2.2) >= synthesize_blur(frames)).mean() > 0.95
    for gamma in (None, 2.2):
        np.testing.assert_array_equal(synthesize_blur(frames[:1], gamma), frames[0])
    with pytest.raises(DataError, match="gamma"):
        synthesize_blur(frames, 0.0)


# --- Between frames -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 2, 4, 6])
def test_flow_moves_what_linear_interpolation_fades(place):
    """The first and the last of nine frames, and one between them as the truth."""
    first, truth, second = (luma(film(7, 9, 64, 96, 1)[n]) / np.float32(255) for n in (0, place, 8))
    inside = np.s_[8:-8, 12:-12]
    errors = {}
    for how in ("linear", "flow"):
        frame = list(interpolate(first, second, 8, how))[place]
        assert (frame.dtype, frame.min() >= 0, frame.max() <= 1) == (np.float32, True, True)
        errors[how] = np.abs(frame - truth)[inside].mean()
    assert errors["flow"] <= 0.5 * errors["linear"] + 1e-6
    assert (errors["linear"] == 0) == (place == 0)


def test_the_simulator_uses_it():
    scene = film(7, 3, 64, 96, 4)
    linear, flow = (simulate_spikes(scene, interpolation=how) for how in ("linear", "flow"))
    assert 0.001 < (linear != flow).mean() < 0.2
    assert linear.mean() == pytest.approx(flow.mean(), rel=0.05)
    with pytest.raises(DataError, match="8 x 40 are too small"):
        simulate_spikes(np.zeros((2, 16, 80), np.uint8), interpolation="flow")
