"""Keys of older files, with their names of today or the reason that they are gone."""

from __future__ import annotations

from vrtspike.config.deprecated_keys import COMMON, DeprecatedKey, DeprecatedKeys

_CHUNKS = DeprecatedKey(reason="chunks have pixels of any place")

DEPRECATED_KEYS: DeprecatedKeys = {
    **COMMON,
    ("DATA", "TRAIN_CROP_SIZE"): DeprecatedKey(("DATA", "CROP_SIZE")),
    ("DATA", "VAL_SPLIT"): DeprecatedKey(("DATA", "TEST_SPLIT")),
    ("DATA", "K"): DeprecatedKey(("DATA", "NUM_VOXEL_BINS")),
    ("MODEL", "VRT", "use_checkpoint_attn"): DeprecatedKey(("MODEL", "VRT", "USE_CHECKPOINT_ATTN")),
    ("MODEL", "VRT", "use_checkpoint_ffn"): DeprecatedKey(("MODEL", "VRT", "USE_CHECKPOINT_FFN")),
    ("MODEL", "LAYERS"): DeprecatedKey(
        values={4: 4}, reason="the spike encoder has 4 scales, one for each scale of VRT"
    ),
    ("MODEL", "CHANNELS_PER_SCALE"): DeprecatedKey(
        reason="the spike encoder's scales are as wide as MODEL.VRT.EMBED_DIMS of stages 1-4"
    ),
    ("MODEL", "FUSE", "TYPE"): DeprecatedKey(
        values={"TemporalCrossAttn": ""}, reason="spike features are fused by attention along time"
    ),
    ("MODEL", "SPIKE_TSA", "CHUNK_SHAPE"): _CHUNKS,
    ("MODEL", "FUSE", "CHUNK_SHAPE"): _CHUNKS,
}
