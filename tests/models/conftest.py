"""Small models, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.checks import published_vrt
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_spike import VRTSpike
from vrtspike.settings.model import ModelSettings


@pytest.fixture
def small_vrt() -> Callable[..., VRT]:
    """Build a model of a few thousand parameters beside SpyNet, the same every time."""

    def build(**options: Any) -> VRT:
        torch.manual_seed(0)
        arguments: dict[str, Any] = {
            "window_size": (2, 4, 4),
            "depths": (2, 1, 1, 1, 1, 1, 2, 2, 1),
            "indep_reconsts": (8,),
            "embed_dims": (8,) * 7 + (12,) * 2,
            "num_heads": 2,
            "drop_path_rate": 0.0,
            "deformable_groups": 2,
        }
        return published_vrt(**{**arguments, **options})

    return build


@pytest.fixture
def small_vrt_spike(small_vrt: Callable[..., VRT]) -> Callable[..., VRTSpike]:
    """Build a model with a spike branch, for 4 bins."""

    def build(vrt: VRT | None = None, **keys: Any) -> VRTSpike:
        settings = ModelSettings.model_validate(keys)
        return VRTSpike(vrt or small_vrt(), settings, bins=4)

    return build
