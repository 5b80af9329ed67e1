"""Settings of the loss: active terms, and the networks that they read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vrtspike.deblurring_settings.losses import LossSettings, LpipsSettings, VggSettings


def test_terms_with_a_weight_are_active():
    assert list(LossSettings().active) == ["CHARBONNIER"]
    weights = {"CHARBONNIER": {"WEIGHT": 0}, "LPIPS": {"WEIGHT": 0.1}}
    assert list(LossSettings.model_validate(weights).active) == ["LPIPS"]
    with pytest.raises(ValidationError, match="every term has weight 0"):
        LossSettings.model_validate({"CHARBONNIER": {"WEIGHT": 0}})


def test_a_term_with_published_weights_names_their_network():
    assert LpipsSettings(NET="vgg").backbone == "vgg"
    assert VggSettings().backbone == "vgg"
    assert VggSettings(WEIGHTS="random").backbone is None


@pytest.mark.parametrize(("keys", "is_in_every_step"), [({}, True), ({"EVERY": 2}, False)])
def test_steps_of_the_perceptual_loss(keys, is_in_every_step):
    assert VggSettings(**keys).is_in_every_step == is_in_every_step
