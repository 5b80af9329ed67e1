"""Sizes and spikes that presets require of a data set."""

from __future__ import annotations

import pytest

from vrtspike.data.clips.requirements import crop_sizes, largest_crop, require_spikes
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.system.errors import ConfigError


def test_only_a_model_with_spikes_needs_them():
    with_spikes = DeblurringSettings()
    without = DeblurringSettings.model_validate({"MODEL": {"USE_SPIKE": False}})
    require_spikes("here", True, with_spikes)
    require_spikes("here", True, without)
    require_spikes("here", False, without)
    with pytest.raises(ConfigError, match=r"here: no .* Set MODEL\.USE_SPIKE to false") as caught:
        require_spikes("here", False, with_spikes)
    assert "config/examples/high_frame_rate.yaml" in str(caught.value)


def preset(length, crop, *phases, **data):
    progressive = [{"CROP_SIZE": size, "EPOCHS": 1} for size in phases]
    return DeblurringSettings.model_validate(
        {
            "DATA": {"CLIP_LEN": length, "CROP_SIZE": crop, **data},
            "TRAIN": {"PROGRESSIVE": progressive},
        }
    )


GROWING = (4, 48, 64, 128)


@pytest.mark.parametrize(
    ("presets", "sizes"),
    [
        ([preset(*GROWING)], {"train": 128, "test": 1}),
        ([preset(4, 96, 48)], {"train": 96, "test": 1}),
        (
            [preset(6, 96, VALIDATION="test"), preset(*GROWING, VALIDATION="test")],
            {"train": 96, "test": 48},
        ),
        # A split that is validated on, too.
        ([preset(2, 64, 32, TEST_SPLIT="train", TEST_ON_TRAINING_FRAMES=True)], {"train": 64}),
        ([preset(2, 64, 96, TEST_SPLIT="train", TEST_ON_TRAINING_FRAMES=True)], {"train": 96}),
    ],
)
def test_the_least_that_crops_ask_of_a_data_set(presets, sizes):
    assert crop_sizes(presets) == sizes


def test_the_largest_crops_of_a_preset():
    assert [largest_crop(settings) for settings in (preset(6, 96), preset(*GROWING))] == [96, 128]
