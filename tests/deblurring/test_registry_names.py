"""The tables of extension points, and what must follow from them."""

from __future__ import annotations

from pathlib import Path

from vrtspike.deblurring.registry_names import generated_names_module
from vrtspike.settings import generated_names


def test_the_names_that_presets_may_use_are_those_of_the_tables():
    text = Path(generated_names.__file__).read_text(encoding="utf-8")
    assert text == generated_names_module(), "run: python scripts/config_reference.py"
