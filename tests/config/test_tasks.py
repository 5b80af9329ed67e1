"""Registry of tasks: discovery, interface, unknown names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_args

import pytest

from vrtspike.config.loading import load_preset
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import TASKS, Metric, OptionalPart, Task, find_task, has_part
from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError

FUNCTIONS = {
    name: list(inspect.signature(member).parameters.values())[1:]  # without self
    for name, member in vars(Task).items()
    if inspect.isfunction(member) and not name.startswith("_")
}
"""The parameters of the functions of the interface, by name."""
OF_PREPARE = {"prepare", "data_files", "data_settings"}
OPTIONAL = {*get_args(OptionalPart), *OF_PREPARE}
PARTS = {*FUNCTIONS, *Task.__annotations__}


def test_each_package_with_a_module_of_this_name_is_a_task():
    names = ("deblurring", "sst")
    assert TASKS == {name: f"vrtspike.{name}.task" for name in names}


def test_a_part_of_the_interface_is_either_abstract_or_optional():
    required = {"SETTINGS", "METRICS", *Task.__abstractmethods__}
    assert PARTS - OPTIONAL == required
    assert required | OPTIONAL == PARTS
    # What the next test looks at.
    assert (len(FUNCTIONS), len(required), len(OPTIONAL)) == (14, 10, 7)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_the_whole_interface(name):
    task = find_task(name)
    assert issubclass(task.SETTINGS, RunSettings)
    present = {part for part in PARTS if hasattr(task, part)}
    assert PARTS - OPTIONAL <= present
    assert present & OF_PREPARE in (set(), OF_PREPARE)
    for function in FUNCTIONS.keys() & present:
        result = inspect.signature(getattr(task, function)).parameters.values()
        expected = FUNCTIONS[function]
        assert [(p.name, p.kind) for p in result] == [(p.name, p.kind) for p in expected], function
    assert task.METRICS
    for key, metric in task.METRICS.items():
        assert isinstance(metric, Metric)
        assert metric.name == key
        assert metric.reference_name != metric.result_name


@pytest.mark.parametrize(
    ("part", "of_deblurring", "of_the_sea"),
    [
        ("FRAME_KEYS", True, False),
        ("prepare", False, True),
        ("memory", False, True),
        ("advice", True, False),
        ("page", True, False),
    ],
)
def test_optional_parts_are_those_that_the_module_defines(part, of_deblurring, of_the_sea):
    assert has_part(find_task("deblurring"), part) == of_deblurring
    assert has_part(find_task("sst"), part) == of_the_sea


def test_a_task_without_required_parts_is_refused(monkeypatch):
    sea = find_task("sst")
    for part in ("build", "METRICS"):
        monkeypatch.delattr(sea, part)
    message = r"TASK is 'sst', and vrtspike\.sst\.task lacks METRICS, build; .*docs/extending\.md"
    with pytest.raises(ConfigError, match=message):
        find_task("sst")


@pytest.mark.parametrize("part", ["data_files", "data_settings"])
def test_a_task_that_prepares_says_from_what(monkeypatch, part):
    monkeypatch.delattr(find_task("sst"), part)
    with pytest.raises(ConfigError, match=rf"vrtspike\.sst\.task lacks {part};"):
        find_task("sst")
    monkeypatch.delattr("vrtspike.sst.task.prepare")
    assert not has_part(find_task("sst"), "prepare")


def test_data_of_rules_of_their_own_are_not_prepared(repository, tmp_path):
    command = [sys.executable, "scripts/prepare.py", "--preset", "demo"]
    command += ["--output", str(tmp_path / "dataset.json")]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == EXIT_USER_ERROR
    assert "--preset demo: TASK is deblurring, whose data are made by its own rules" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("sstt", "TASK is 'sstt', and there is no such task; there are: deblurring, sst"),
        ("3", "TASK is 3, and there is no such task"),
        ("[sst]", "TASK is ['sst'], and there is no such task"),
    ],
)
def test_an_unknown_task_is_reported_with_file_and_line(tmp_path, task, message):
    path = tmp_path / "preset.yaml"
    path.write_text("SEED: 1\n")
    assert load_preset(path).TASK == DEFAULT_TASK == "deblurring"
    path.write_text(f"SEED: 1\nTASK: {task}\n")
    with pytest.raises(ConfigError) as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)
