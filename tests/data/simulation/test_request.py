"""Simulations that a user asks for: options that change nothing, and values out of their range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vrtspike.data.simulation.request import SimulationRequest
from vrtspike.system.errors import ConfigError

REQUEST = SimulationRequest(output=Path("spikes"), sensor={"NOISE": "0.02"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "found no frames, expected one of --frames, --source and --pairs"),
        (
            {"frames": Path("frames"), "splits": ["test"], "layout": "gopro"},
            "found --splits and --layout with --frames, which changes nothing there",
        ),
        (
            {"source": Path("films"), "sequence": "a"},
            "found --sequence with --source, which changes nothing there",
        ),
        (
            {"pairs": Path("pairs"), "frames_per_exposure": 7, "sensor": {"GAMMA": 2.2}},
            "found --frames-per-exposure and --gamma with --pairs, which changes nothing there",
        ),
        ({"frames": Path("frames"), "sensor": {"NOISE": -1}}, "--noise: "),
    ],
)
def test_requests_are_refused_before_anything_is_read(changes, message):
    with pytest.raises(ConfigError) as caught:
        replace(REQUEST, **changes).run()
    assert message in str(caught.value)
