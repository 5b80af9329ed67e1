"""The order of the steps of spikes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.scenes import film, packed
from vrtspike.data.checks.step_order import disorder, order_fault
from vrtspike.data.simulation.sensor import simulate_spikes


def expected_disorder(spikes):
    """The disorder of unpacked spikes by its definition."""
    count = spikes.sum(axis=0, dtype=np.int64)
    pairs = np.count_nonzero(spikes[:-1] & spikes[1:])
    chance = float((count * (count - 1)).sum()) / len(spikes)
    regular = float(np.maximum(2 * count - len(spikes), 0).sum())
    return (pairs - regular) / (chance - regular)


@pytest.mark.parametrize("width", [128, 118])  # whole bytes, and rows that end within one
@pytest.mark.parametrize(("share", "refused"), [(0, False), (0.6, False), (0.8, True), (1, True)])
def test_spikes_are_refused_if_most_pixels_are_shuffled(share, refused, width):
    spikes = simulate_spikes([frame[:, :width] for frame in film(1, 40)]).view(np.uint8)
    random = np.random.default_rng(0)
    mixed = random.random(spikes.shape[1:]) < share
    spikes[:, mixed] = random.permuted(spikes[:, mixed], axis=0)
    value = disorder(packed(spikes))
    assert value == expected_disorder(spikes) == pytest.approx(share, abs=0.1)
    fault = order_fault(value, "a.dat")
    assert bool(fault and fault.startswith("a.dat: ") and "shuffled" in fault) == refused


@pytest.mark.parametrize(("pixels", "enough"), [(0, False), (38, False), (39, True)])
def test_a_verdict_on_the_order_needs_200_pairs(pixels, enough):
    # 22 spikes in 88 steps: 22 * 21 / 88 = 5.25 pairs by chance in each pixel.
    spikes = np.zeros((88, 1, pixels + 8), np.uint8)
    spikes[::4, :, :pixels] = 1
    assert disorder(packed(spikes)) == (0.0 if enough else None)


def test_disorder_of_pixels_that_fire_in_most_steps():
    # Two of three steps: 2 n - T = 20 pairs are regular in 60 steps, chance makes 26.
    regular = np.zeros((60, 8, 8), np.uint8)
    regular[0::3] = regular[1::3] = 1
    assert disorder(packed(regular)) == pytest.approx(0, abs=0.01)
    shuffled = np.random.default_rng(0).permuted(regular, axis=0)
    assert disorder(packed(shuffled)) == pytest.approx(1, abs=0.1)
