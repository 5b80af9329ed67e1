"""The small published model that the golden files hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from tests.models.checks import published_vrt
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_checkpoints import load_vrt


@pytest.fixture(scope="session")
def golden(shared: Path) -> Path:
    return shared / "golden"


@pytest.fixture(scope="session")
def golden_tensors(golden: Path) -> dict[str, Tensor]:
    return load_file(golden / "vrt_tiny_io.safetensors")


@pytest.fixture(scope="session")
def golden_weights(golden: Path) -> dict[str, Tensor]:
    return load_file(golden / "vrt_tiny_weights.safetensors")


@pytest.fixture(scope="session")
def golden_vrt(golden: Path, golden_weights: dict[str, Tensor]) -> Callable[..., VRT]:
    """Build the golden model with its weights and further arguments."""
    arguments = json.loads((golden / "vrt_tiny_config.json").read_text())
    assert arguments.pop("upscale") == 1
    del arguments["img_size"]  # of no effect
    arguments["num_heads"], *_ = arguments["num_heads"]

    def build(**options: Any) -> VRT:
        vrt = published_vrt(**arguments, **options)
        load_vrt(vrt, golden_weights, "golden weights")
        return vrt

    return build
