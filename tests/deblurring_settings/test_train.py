"""Settings of the training that follow from several keys."""

from __future__ import annotations

import pytest

from vrtspike.deblurring_settings.train import DeblurringTrainSettings

PHASES = [{"CROP_SIZE": 64, "EPOCHS": 3}, {"CROP_SIZE": 128, "EPOCHS": 4}]


@pytest.mark.parametrize(
    ("keys", "epochs"),
    [
        ({"EPOCHS": 5}, 5),
        ({"EPOCHS": 5, "PROGRESSIVE": PHASES}, 7),
        ({"EPOCHS": None, "MAX_STEPS": 10}, None),
    ],
)
def test_phases_replace_the_number_of_epochs(keys, epochs):
    assert DeblurringTrainSettings.model_validate(keys).epochs == epochs
