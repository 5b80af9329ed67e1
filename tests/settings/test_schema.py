"""Keys that have to fit together: spikes of neighbours and their model; keys that save memory."""

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
    changes = " ".join(load(*overrides).memory_changes)
    assert re.findall(r"[A-Z]+(?:\.[A-Z_]+)+", changes) == keys
