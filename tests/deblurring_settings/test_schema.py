"""Keys that have to fit together: spikes and their model; keys that save memory."""

from __future__ import annotations

import re

import pytest

from vrtspike.config.loading import build_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.system.errors import ConfigError


def load(*overrides):
    return build_settings(parse_overrides(overrides))


SINGLE_FRAMES = (
    "MODEL.TYPE=spike_nafnet",
    "DATA.NEIGHBOURS=true",
    "DATA.CLIP_LEN=1",
    "TEST.TILE.FRAMES=2",
)


def test_neighbours_are_for_a_model_that_takes_them():
    assert load(*SINGLE_FRAMES).DATA.NEIGHBOURS
    with pytest.raises(ConfigError, match=r"NEIGHBOURS is true and MODEL.TYPE is vrt_spike; expe"):
        load(*SINGLE_FRAMES, "MODEL.TYPE=vrt_spike")


OF_CLIPS = ("DATA.CROP_SIZE", "DATA.CLIP_LEN")
BATCH = ("TRAIN.BATCH_SIZE", "TRAIN.GRADIENT_ACCUMULATION_STEPS")


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["TRAIN.BATCH_SIZE=1"], ["TRAIN.OPTIM.TYPE", *OF_CLIPS]),
        (["TRAIN.BATCH_SIZE=2"], [*BATCH, "TRAIN.OPTIM.TYPE", *OF_CLIPS]),
        (["TRAIN.OPTIM.TYPE=adamw8bit"], [*OF_CLIPS]),
        (["TRAIN.OPTIM.TYPE=adamw8bit", "DATA.CLIP_LEN=1"], ["DATA.CROP_SIZE"]),
        (
            ["MODEL.VRT.USE_CHECKPOINT_ATTN=false"],
            ["TRAIN.OPTIM.TYPE", "MODEL.VRT.USE_CHECKPOINT_ATTN", *OF_CLIPS],
        ),
        # The light network recomputes nothing.
        (
            ["MODEL.TYPE=spike_nafnet", "MODEL.VRT.USE_CHECKPOINT_ATTN=false"],
            ["TRAIN.OPTIM.TYPE", *OF_CLIPS],
        ),
    ],
)
def test_only_keys_that_can_save_memory_are_advised(overrides, keys):
    changes = " ".join(load(*overrides).memory_saving_changes)
    assert re.findall(r"[A-Z]+(?:\.[A-Z_]+)+", changes) == keys


SHUFFLED = "MODEL.SPIKE_ORDER=shuffled"


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


def test_single_frames_can_be_given_the_spikes_of_neighbours():
    assert load(*SINGLE_FRAMES, SHUFFLED).MODEL.shuffles_spikes
    assert not load(*SINGLE_FRAMES).MODEL.shuffles_spikes
    assert not load(*SINGLE_FRAMES, SHUFFLED, "MODEL.USE_SPIKE=false").MODEL.shuffles_spikes


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
