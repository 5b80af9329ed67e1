"""Names and shapes of the published GoPro model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models.checks import published_state_dict
from vrtspike.deblurring_settings.model import ModelSettings
from vrtspike.models.vrt import VRT

pytestmark = pytest.mark.shared


def test_every_entry_of_the_published_model_is_met(golden: Path) -> None:
    lines = (golden / "vrt_gopro_state_dict.tsv").read_text().splitlines()[1:]
    expected = {}
    for line in lines:
        name, shape, _ = line.split("\t")
        expected[name] = tuple(int(length) for length in shape.split("x"))
    with torch.device("meta"):
        vrt = VRT(ModelSettings())
    shapes = {name: tuple(tensor.shape) for name, tensor in published_state_dict(vrt).items()}
    assert shapes == expected
    assert sum(p.numel() for p in vrt.parameters()) == 18_320_007
    assert sum(p.numel() for p in vrt.spynet.parameters()) == 1_440_300
