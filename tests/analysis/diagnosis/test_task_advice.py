"""The part of a task in the advice on its runs, and its default."""

from __future__ import annotations

import pytest

from vrtspike.analysis.diagnosis.task_advice import TaskAdvice, task_advice
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import find_task
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.system.errors import ConfigError

SEA = find_task("sst").SETTINGS(TASK="sst")


def test_a_task_without_advice_of_its_own_has_the_default():
    assert type(task_advice(SEA)) is TaskAdvice
    assert type(task_advice(DeblurringSettings())) is not TaskAdvice


def test_the_default_names_no_keys():
    advice = task_advice(SEA)
    assert (advice.missing_weights, advice.first_steps, advice.recompute_keys) == ({}, (), ())
    assert advice.faster_loading(has_memory=True) == {}
    assert advice.faster_section("vrt/fusion1") == {}


def test_an_unknown_task_is_refused():
    with pytest.raises(ConfigError, match="TASK is 'waves', and there is no such task"):
        task_advice(RunSettings(TASK="waves"))
