"""Texts in rules: options of an evaluation."""

from __future__ import annotations

import shlex

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.settings import Settings
from vrtspike.workflow.rule_options import evaluation_overrides


def test_a_shell_passes_all_test_settings_and_no_others():
    test = {"TILE": {"SIZE": 64, "FRAMES": None}, "METRICS": ["psnr", "ssim"]}
    settings = Settings.model_validate({"TEST": test, "TRAIN": {"MAX_STEPS": 7}})
    option, *pairs = shlex.split(evaluation_overrides(settings))
    assert option == "--set"
    assert "TEST.TILE.SIZE=64" in pairs
    assert parse_overrides(pairs).tree == {"TEST": settings.TEST.model_dump(mode="json")}


def test_a_task_without_test_settings_passes_none():
    assert evaluation_overrides(RunSettings()) == ""
