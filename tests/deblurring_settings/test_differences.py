"""Differences between the models of two presets."""

from __future__ import annotations

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.differences import differing_model_keys


def settings(**model: object) -> DeblurringSettings:
    return DeblurringSettings.model_validate({"MODEL": model})


def test_keys_of_one_network_are_compared():
    light = settings(TYPE="spike_nafnet", NAF={"WIDTH": 16})
    assert differing_model_keys(light, light) == {}
    wide = settings(TYPE="spike_nafnet", NAF={"WIDTH": 32}, USE_SPIKE=False)
    assert differing_model_keys(light, wide) == {
        "MODEL.USE_SPIKE": "MODEL.USE_SPIKE is true there, false here",
        "MODEL.NAF.WIDTH": "MODEL.NAF.WIDTH is 16 there, 32 here",
    }


def test_keys_of_another_network_have_no_effect():
    light = settings(TYPE="spike_nafnet", NAF={"WIDTH": 16})
    large = settings(TYPE="vrt_spike", NAF={"WIDTH": 32}, WINDOW_SIZE=4)
    text = 'MODEL.TYPE is "spike_nafnet" there, "vrt_spike" here'
    assert differing_model_keys(light, large) == {"MODEL.TYPE": text}
    # VRT's windows are no part of the light model.
    windows = settings(TYPE="spike_nafnet", NAF={"WIDTH": 16}, WINDOW_SIZE=4)
    assert differing_model_keys(light, windows) == {}
    vrt = settings(TYPE="vrt_spike", WINDOW_SIZE=4)
    assert "MODEL.WINDOW_SIZE" in differing_model_keys(settings(TYPE="vrt_spike"), vrt)
