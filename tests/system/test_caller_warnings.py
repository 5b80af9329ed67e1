"""Warnings at the line of a program that called the package."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from vrtspike.system.caller_warnings import warn_caller

WITHIN = "def call(depth): return call(depth - 1) if depth else warn_caller('doubt')"


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_warning_names_the_line_outside_the_package(depth):
    package: dict[str, Any] = {"__name__": "vrtspike.within", "warn_caller": warn_caller}
    exec(WITHIN, package)
    with pytest.warns(UserWarning, match="^doubt$") as caught:
        package["call"](depth)
    assert caught[0].filename == __file__
    assert linecache.getline(__file__, caught[0].lineno).strip() == 'package["call"](depth)'
