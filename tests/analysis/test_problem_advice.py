"""The part of a problem in the advice on its runs, and its default."""

from __future__ import annotations

import pytest

from vrtspike.analysis.problem_advice import ProblemAdvice, problem_advice
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError

SEA = find_problem("sst").SETTINGS(TASK="sst")


def test_a_problem_without_advice_of_its_own_has_the_default():
    assert type(problem_advice(SEA)) is ProblemAdvice
    assert type(problem_advice(Settings())) is not ProblemAdvice


def test_the_default_names_no_keys():
    advice = problem_advice(SEA)
    assert (advice.missing_weights, advice.first_steps, advice.recompute_keys) == ({}, (), ())
    assert advice.faster_loading(has_memory=True) == {}
    assert advice.faster_section("vrt/fusion1") == {}


def test_an_unknown_problem_is_refused():
    with pytest.raises(ConfigError, match="TASK is 'waves', and there is no such problem"):
        problem_advice(RunSettings(TASK="waves"))
