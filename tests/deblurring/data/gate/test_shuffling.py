from __future__ import annotations

import numpy as np
import pytest

from tests.deblurring.data.scenes import film
from vrtspike.deblurring.data.gate.shuffling import disorder, require_order
from vrtspike.deblurring.data.raw.spikes import PackedSpikes, pack_rows
from vrtspike.deblurring.data.simulation.sensor import simulate_spikes
from vrtspike.errors import DataError


def by_definition(spikes):
    count = spikes.sum(axis=0, dtype=np.int64)
    pairs = np.count_nonzero(spikes[:-1] & spikes[1:])
    chance = float((count * (count - 1)).sum()) / len(spikes)
    regular = float(np.maximum(2 * count - len(spikes), 0).sum())
    return (pairs - regular) / (chance - regular)


def test_regular_and_shuffled_steps_whole_and_packed():
    spikes = simulate_spikes(film(1, 12)).view(np.uint8)
    shuffled = np.random.default_rng(0).permutation(spikes)
    for steps, low, high in ((spikes, -0.1, 0.1), (shuffled, 0.9, 1.1)):
        packed = PackedSpikes(pack_rows(steps), steps.shape[2])
        found = disorder(steps)
        assert low < found < high
        assert found == disorder(packed) == by_definition(steps)
    require_order(spikes, "a.dat")
    with pytest.raises(DataError, match=r"a\.dat: .* shuffled"):
        require_order(packed, "a.dat")


def test_too_few_spikes_say_nothing():
    assert disorder(np.zeros((88, 8, 8), np.uint8)) is None


@pytest.mark.parametrize(("share", "refused"), [(0.6, False), (0.8, True)])
def test_spikes_are_refused_where_most_pixels_are_shuffled(share, refused):
    spikes = simulate_spikes(film(1, 12)).view(np.uint8)
    random = np.random.default_rng(0)
    mixed = random.random(spikes.shape[1:]) < share
    spikes[:, mixed] = random.permuted(spikes[:, mixed], axis=0)
    assert disorder(spikes) == pytest.approx(share, abs=0.06)
    if refused:
        with pytest.raises(DataError, match=r"a\.dat: .* shuffled"):
            require_order(spikes, "a.dat")
    else:
        require_order(spikes, "a.dat")


@pytest.mark.parametrize(("pixels", "enough"), [(38, False), (39, True)])
def test_a_verdict_takes_200_pairs(pixels, enough):
    # 22 spikes in 88 steps: 22 * 21 / 88 = 5.25 pairs by chance in each pixel.
    spikes = np.zeros((88, 1, pixels), np.uint8)
    spikes[::4] = 1
    assert disorder(spikes) == (0.0 if enough else None)


def test_pixels_that_fire_in_more_than_half_of_the_steps():
    # Two of three steps: 2 n - T = 20 pairs are regular in 60 steps, chance makes 26.
    regular = np.zeros((60, 8, 8), np.uint8)
    regular[0::3] = regular[1::3] = 1
    assert disorder(regular) == pytest.approx(0, abs=0.01)
    shuffled = np.random.default_rng(0).permuted(regular, axis=0)
    assert disorder(shuffled) == pytest.approx(1, abs=0.1)
