"""Older and alternative names of keys."""

from __future__ import annotations

import pytest

from vrtspike.config.loading import build_settings, with_current_keys
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import Document, overlay, parse_overrides
from vrtspike.system.errors import ConfigError


def settings_of(document: Document) -> RunSettings:
    return build_settings(with_current_keys(document))


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("TOTAL_WORKERS=3", "DATALOADER.TOTAL_WORKERS", 3),
        ("TRAIN.NUM_WORKERS=3", "DATALOADER.TRAIN_WORKERS", 3),
        ("DATA.TRAIN_CROP_SIZE=64", "DATA.CROP_SIZE", 64),
        ("DATA.K=9", "DATA.NUM_VOXEL_BINS", 9),
        ("DATA.K=null", "DATA.NUM_VOXEL_BINS", 32),  # as in runs of older versions
        ("MODEL.VRT.use_checkpoint_attn=false", "MODEL.VRT.USE_CHECKPOINT_ATTN", False),
        ("MODEL.VRT.use_checkpoint_ffn=false", "MODEL.VRT.USE_CHECKPOINT_FFN", False),
        ("TRAIN.AMP_ENABLED=false", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_ENABLED=true", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_ENABLED=on", "TRAIN.PRECISION", "mixed"),  # a text in YAML 1.2
        ("TRAIN.AMP_OPT_LEVEL=O0", "TRAIN.PRECISION", "32"),
        ("TRAIN.AMP_OPT_LEVEL=O1", "TRAIN.PRECISION", "mixed"),
        ("TRAIN.AMP_OPT_LEVEL=O2", "TRAIN.PRECISION", "bf16-true"),
        ("TRAIN.PRECISION=32", "TRAIN.PRECISION", "32"),
        ("MODEL.VRT_DEPTHS=[8,7,8,8,4,4,4,6]", "MODEL.VRT_DEPTHS", (8, 7, 8, 8, 4, 4, 4, *[6] * 4)),
        ("MODEL.WINDOW_SIZE=4", "MODEL.window", (6, 4, 4)),
        ("MODEL.WINDOW_SIZE=[2,3,5]", "MODEL.window", (2, 3, 5)),
    ],
)
def test_other_spellings(override: str, name: str, value: object) -> None:
    assert settings_of(parse_overrides([override])).value(name) == value
    # Also where the key itself says the same, and not where it says something else.
    key, _, old = override.partition("=")
    if not isinstance(value, tuple) and old != "null":
        text = str(value).lower() if isinstance(value, bool) else repr(value)
        settings_of(overlay(parse_overrides([override]), parse_overrides([f"{name}={text}"])))
        with pytest.raises(ConfigError, match=rf"{key.rpartition('.')[2]}"):
            settings_of(parse_overrides([override, f"{name}=other"]))


def test_half_precision_is_off_if_disabled_at_any_level() -> None:
    off = parse_overrides(["TRAIN.AMP_ENABLED=off", "TRAIN.AMP_OPT_LEVEL=O2"])
    assert settings_of(off).TRAIN.PRECISION == "32"
