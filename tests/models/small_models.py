"""Settings of small networks, for tests of every model of the registry."""

from __future__ import annotations

import pytest

from vrtspike.models.registry import MODELS

SMALL = {
    "VRT_DEPTHS": [1] * 8,
    "WINDOW_SIZE": [2, 4, 4],
    "VRT": {"EMBED_DIMS": [8] * 11, "NUM_HEADS": 2, "DEFORMABLE_GROUPS": 2},
    "SPIKE_TSA": {"HEADS": 2},
    "FUSE": {"HEADS": 2},
    "NAF": {
        "WIDTH": 8,
        "SPIKE_WIDTH": 8,
        "NEIGHBOUR_BINS": 2,
        "SPIKE_BLOCKS": 2,
        "LEARNED_ENLARGEMENT": True,
        "ENCODER_BLOCKS": [1, 1, 1],
        "DECODER_BLOCKS": [1, 1, 1],
    },
}

each_model = pytest.mark.parametrize("name", MODELS)
