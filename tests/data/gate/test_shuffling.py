from __future__ import annotations

import numpy as np
import pytest

from tests.data.scenes import film
from vrtspike.data.gate.shuffling import disorder, require_order
from vrtspike.data.raw.spikes import PackedSpikes, pack_rows
from vrtspike.data.simulation.sensor import simulate_spikes
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
