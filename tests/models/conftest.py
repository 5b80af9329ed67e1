"""Small models, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.checks import published_settings, published_vrt
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_spike import VRTSpike

SMALL: dict[str, Any] = {
    "window_size": (2, 4, 4),
    "depths": (2, 1, 1, 1, 1, 1, 2, 2, 1),
    "indep_reconsts": (8,),
    "embed_dims": (8,) * 7 + (12,) * 2,
    "num_heads": 2,
    "drop_path_rate": 0.0,
    "deformable_groups": 2,
}


@pytest.fixture
def small_vrt() -> Callable[..., VRT]:
    """Build a model of a few thousand parameters beside SpyNet, the same every time."""

    def build(**options: Any) -> VRT:
        torch.manual_seed(0)
        return published_vrt(**{**SMALL, **options})

    return build


@pytest.fixture
def small_vrt_spike() -> Callable[..., VRTSpike]:
    """Build the same model with a spike branch; its last layer may start away from zero."""

    def build(bins: int = 4, *, at_zero: bool = False, **options: Any) -> VRTSpike:
        torch.manual_seed(0)
        model = VRTSpike(published_settings(**{**SMALL, **options}), bins)
        if not at_zero:
            model.vrt.conv_last.reset_parameters()
        return model

    return build
