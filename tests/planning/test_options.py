from __future__ import annotations

import re
import shlex

from vrtspike.config.run_schema import RunSettings
from vrtspike.deblurring.settings import Settings
from vrtspike.planning.options import evaluation_overrides, one_of


def test_a_constraint_fits_the_names_and_nothing_else():
    constraint = one_of(["demo", "low.ram"])
    assert [bool(re.fullmatch(constraint, n)) for n in ("demo", "low.ram", "lowXram", "dem")] == [
        *(True, True, False, False)
    ]


def test_the_evaluation_gets_todays_settings():
    settings = Settings.model_validate({"TEST": {"METRICS": ["psnr"], "TILE": {"SIZE": 128}}})
    options = shlex.split(evaluation_overrides(settings))
    assert options[0] == "--set"
    assert {"TEST.TILE.SIZE=128", 'TEST.METRICS=["psnr"]'} <= set(options[1:])
    assert all(option.startswith("TEST.") for option in options[1:])


def test_an_evaluation_without_settings_gets_no_option():
    assert evaluation_overrides(RunSettings()) == ""
