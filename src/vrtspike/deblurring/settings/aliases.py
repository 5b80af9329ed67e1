"""What keys of the deblurring were called in older files."""

from __future__ import annotations

from vrtspike.config.aliases import COMMON, Aliases, Retired

ALIASES = COMMON | Aliases(
    renamed={
        ("DATA", "TRAIN_CROP_SIZE"): ("DATA", "CROP_SIZE"),
        ("DATA", "NUM_VOXEL_BINS"): ("DATA", "K"),
        ("MODEL", "VRT", "use_checkpoint_attn"): ("MODEL", "VRT", "USE_CHECKPOINT_ATTN"),
        ("MODEL", "VRT", "use_checkpoint_ffn"): ("MODEL", "VRT", "USE_CHECKPOINT_FFN"),
    },
    old_values={("DATA", "READER"): {"mapped": "tensorstore"}},
    retired={
        ("MODEL", "LAYERS"): Retired(
            "the spike encoder has 4 scales, one for each scale of VRT", 4
        ),
        ("MODEL", "CHANNELS_PER_SCALE"): Retired(
            "the spike encoder's scales are as wide as VRT's, MODEL.VRT.EMBED_DIMS of stages 1-4"
        ),
        ("MODEL", "FUSE", "TYPE"): Retired(
            "spike features are fused by attention along time", "TemporalCrossAttn"
        ),
    },
)
