"""The tables of extension points, and what must follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config import load_preset
from vrtspike.deblurring.data.raw.layouts.registry import LAYOUTS
from vrtspike.deblurring.extension_points import names_module
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.models.registry import MODELS
from vrtspike.deblurring.settings import names
from vrtspike.errors import ConfigError


def test_the_names_that_presets_may_use_are_those_of_the_tables():
    found = Path(names.__file__).read_text(encoding="utf-8")
    assert found == names_module(), "run: python scripts/config_reference.py"


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("TEST: {METRICS: [psnr, pnsr]}", METRICS),
        ("DATA: {LAYOUT: reads}", LAYOUTS),
        ("MODEL: {TYPE: vrt}", MODELS),
    ],
)
def test_a_name_that_stands_in_no_table_is_an_error_with_its_line(tmp_path, line, known):
    path = tmp_path / "preset.yaml"
    path.write_text(f"SEED: 1\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load_preset(path)
    assert f"{path}:2" in str(caught.value)
    for name in known:
        assert f"'{name}'" in str(caught.value)
