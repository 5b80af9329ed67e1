"""Keys that have to fit together: shuffled spikes, and spikes of neighbours."""

from __future__ import annotations

import re

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
        ("TEST.TILE.FRAMES=1", "shuffled and TEST.TILE.FRAMES is 1; expected 2 or more"),
    ],
)
def test_clips_without_other_frames_are_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        load(SHUFFLED, override)
    load(override)
    load(SHUFFLED, override, "MODEL.USE_SPIKE=false")


NEIGHBOURS = ("MODEL.TYPE=spike_nafnet", "DATA.NEIGHBOURS=true")


def test_neighbours_are_for_a_model_that_takes_them():
    assert load(*NEIGHBOURS, "DATA.CLIP_LEN=1").DATA.NEIGHBOURS


def test_shuffled_neighbours_are_refused_with_keys_for_as_many_frames_a_step():
    """The message can be copied: its keys make clips of three frames that can be shuffled."""
    refused = (*NEIGHBOURS, "DATA.CLIP_LEN=1", "TRAIN.BATCH_SIZE=30", SHUFFLED)
    with pytest.raises(ConfigError, match='--config SET="') as caught:
        load(*refused)
    (keys,) = re.findall(r'--config SET="(.+?)"', str(caught.value))
    assert keys == "DATA.NEIGHBOURS=false DATA.CLIP_LEN=3 TRAIN.BATCH_SIZE=10"
    assert load(*refused, *keys.split()).TRAIN.BATCH_SIZE == 10
    with pytest.raises(ConfigError, match='BATCH_SIZE=1"'):
        load(*refused, "TRAIN.BATCH_SIZE=2")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("MODEL.TYPE=vrt_spike", "NEIGHBOURS is true and MODEL.TYPE is vrt_spike; expected"),
        (SHUFFLED, "NEIGHBOURS is true and MODEL.SPIKE_ORDER is shuffled; the control sees no"),
    ],
)
def test_neighbours_are_refused_for_other_models(override, message):
    with pytest.raises(ConfigError, match=message):
        load(*NEIGHBOURS, "DATA.CLIP_LEN=3", override)
