"""Settings of the control with shuffled spikes: no frame gets spikes of its own exposure."""

from __future__ import annotations

import pytest

from vrtspike.config.loading import build_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.system.errors import ConfigError

SHUFFLED = "MODEL.SPIKE_ORDER=shuffled"


def load(*overrides):
    return build_settings(parse_overrides(overrides))


def test_spikes_are_recorded_by_default():
    assert load().MODEL.SPIKE_ORDER == "recorded"
    assert load(SHUFFLED, "DATA.CLIP_LEN=3", "TEST.TILE.FRAMES=2").MODEL.SPIKE_ORDER == "shuffled"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("DATA.CLIP_LEN=1", "SPIKE_ORDER is shuffled and DATA.CLIP_LEN is 1; expected 3 or more"),
        ("DATA.CLIP_LEN=2", "SPIKE_ORDER is shuffled and DATA.CLIP_LEN is 2; expected 3 or more"),
        ("TEST.TILE.FRAMES=1", r"and TEST.TILE.FRAMES \(.*CLIP_LEN\) is 1; expected 2 or more"),
    ],
)
def test_clips_without_other_frames_are_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        load(SHUFFLED, override)
    load(override)
    load(SHUFFLED, override, "MODEL.USE_SPIKE=false")


SINGLE_FRAMES = (
    "MODEL.TYPE=spike_nafnet",
    "DATA.NEIGHBOURS=true",
    "DATA.CLIP_LEN=1",
    "TEST.TILE.FRAMES=2",
)


def test_single_frames_can_be_given_the_spikes_of_neighbours():
    assert load(*SINGLE_FRAMES, SHUFFLED).MODEL.gives_other_spikes
    assert not load(*SINGLE_FRAMES).MODEL.gives_other_spikes
    assert not load(*SINGLE_FRAMES, SHUFFLED, "MODEL.USE_SPIKE=false").MODEL.gives_other_spikes


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("DATA.NEIGHBOURS=false", "DATA.CLIP_LEN is 1; expected 3 or more"),
        ("TEST.TILE.FRAMES=1", r"TEST.TILE.FRAMES \(null: DATA.CLIP_LEN\) is 1; expected 2 or"),
        ("TEST.TILE.FRAMES=null", r"TEST.TILE.FRAMES \(null: DATA.CLIP_LEN\) is 1; expected 2 or"),
        ("DATA.CONTEXT_STEPS=4", "and DATA.CONTEXT_STEPS is 4; expected 0, because the spikes of"),
    ],
)
def test_neighbours_without_spikes_of_their_own_are_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        load(*SINGLE_FRAMES, SHUFFLED, override)
    load(*SINGLE_FRAMES, override)
    load(*SINGLE_FRAMES, SHUFFLED, override, "MODEL.USE_SPIKE=false")


def test_spikes_of_other_frames_of_a_clip_include_none_of_their_surroundings():
    load(SHUFFLED, "DATA.CLIP_LEN=3")
    with pytest.raises(ConfigError, match=r"shuffled and DATA.CONTEXT_STEPS is 4; expected 0"):
        load(SHUFFLED, "DATA.CLIP_LEN=3", "DATA.CONTEXT_STEPS=4")
