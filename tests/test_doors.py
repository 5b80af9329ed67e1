"""The tables that a newcomer adds to, and what must follow from them."""

from __future__ import annotations

from pathlib import Path

from vrtspike.config import names
from vrtspike.doors import names_module


def test_the_names_that_presets_may_use_are_those_of_the_tables():
    found = Path(names.__file__).read_text(encoding="utf-8")
    assert found == names_module(), "run: python scripts/config_reference.py"
