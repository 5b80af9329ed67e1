"""Keys that have to fit together: spikes of neighbours, and the model that takes them."""

from __future__ import annotations

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
