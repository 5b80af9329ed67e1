"""Seconds of repeated work, by a clock that the tests move."""

from __future__ import annotations

import pytest
import torch

from tests.clock import Clock
from vrtspike.monitoring.stopwatch import Stopwatch


@pytest.mark.parametrize(
    ("laps", "seconds"),
    [([], 0.0), ([8.0], 8.0), ([8.0, 2.0], 4.0), ([8.0, 2.0, 4.0, 3.0], 12.0)],
)
def test_the_first_of_several_laps_counts_as_the_mean_of_the_others(clock: Clock, laps, seconds):
    watch = Stopwatch(torch.device("cpu"))
    for lap in laps:
        clock.pass_by(50.0)
        with watch.lap():
            clock.pass_by(lap)
    assert watch.seconds == seconds


@pytest.mark.gpu
def test_a_lap_ends_when_the_device_has_finished():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    matrix = torch.randn(8192, 8192, device="cuda")
    ends = torch.cuda.Event()
    with Stopwatch(torch.device("cuda")).lap():
        for _ in range(20):
            matrix @ matrix
        ends.record()
        assert not ends.query()
    assert ends.query()
