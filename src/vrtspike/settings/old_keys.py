"""Keys of older files, with their names of today or the reason that they are gone."""

from __future__ import annotations

from vrtspike.config.old_keys import COMMON, OldKey, OldKeys

_CHUNKS = OldKey(reason="chunks have pixels of any place")

OLD_KEYS: OldKeys = {
    **COMMON,
    ("DATA", "TRAIN_CROP_SIZE"): OldKey(("DATA", "CROP_SIZE")),
    ("DATA", "VAL_SPLIT"): OldKey(("DATA", "TEST_SPLIT")),
    ("DATA", "K"): OldKey(("DATA", "NUM_VOXEL_BINS")),
    ("MODEL", "VRT", "use_checkpoint_attn"): OldKey(("MODEL", "VRT", "USE_CHECKPOINT_ATTN")),
    ("MODEL", "VRT", "use_checkpoint_ffn"): OldKey(("MODEL", "VRT", "USE_CHECKPOINT_FFN")),
    ("MODEL", "LAYERS"): OldKey(
        values={4: 4}, reason="the spike encoder has 4 scales, one for each scale of VRT"
    ),
    ("MODEL", "CHANNELS_PER_SCALE"): OldKey(
        reason="the spike encoder's scales are as wide as MODEL.VRT.EMBED_DIMS of stages 1-4"
    ),
    ("MODEL", "FUSE", "TYPE"): OldKey(
        values={"TemporalCrossAttn": ""}, reason="spike features are fused by attention along time"
    ),
    ("MODEL", "SPIKE_TSA", "CHUNK_SHAPE"): _CHUNKS,
    ("MODEL", "FUSE", "CHUNK_SHAPE"): _CHUNKS,
}
