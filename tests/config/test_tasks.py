"""Registry of tasks: discovery, interface, unknown names, metrics of equal names."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from vrtspike.analysis.evaluation_files import EvaluatedTask, evaluated_task
from vrtspike.config.loading import load_preset
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.tasks import (
    TASKS,
    EstimatedTask,
    Metric,
    PreparedTask,
    Task,
    all_metrics,
    estimated_task,
    find_task,
    prepared_task,
)
from vrtspike.metrics.registry import METRICS as OF_VIDEOS
from vrtspike.sst.settings import METRICS as OF_THE_SEA
from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError
from vrtspike.training.run import TrainableTask, trainable_task


def functions(*parts: type) -> dict[str, list[inspect.Parameter]]:
    """The parameters of the functions of some parts of the interface, by name."""
    return {
        name: list(inspect.signature(member).parameters.values())[1:]  # without self
        for part in parts
        for name, member in vars(part).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


REQUIRED = functions(Task, TrainableTask, EvaluatedTask)
OF_PREPARE = functions(PreparedTask)
OPTIONAL = OF_PREPARE | functions(EstimatedTask)
VALUES = set(Task.__annotations__)


def test_each_package_with_a_module_of_this_name_is_a_task():
    names = ("deblurring", "sst")
    assert TASKS == {name: f"vrtspike.{name}.task" for name in names}
    # What the next test looks at.
    assert {"SETTINGS", "METRICS"} == VALUES
    assert (len(REQUIRED), len(OF_PREPARE), len(OPTIONAL)) == (8, 3, 4)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_the_whole_interface(name):
    task = find_task(name)
    assert {member for member in VALUES if not hasattr(task, member)} == set()
    assert issubclass(task.SETTINGS, RunSettings)
    present = {name for name in OPTIONAL if hasattr(task, name)}
    assert present & OF_PREPARE.keys() in (set(), OF_PREPARE.keys())
    for function, expected in (REQUIRED | OPTIONAL).items():
        if function in OPTIONAL.keys() - present:
            continue
        result = inspect.signature(getattr(task, function)).parameters.values()
        assert [(p.name, p.kind) for p in result] == [(p.name, p.kind) for p in expected], function
    assert task.METRICS
    for key, metric in task.METRICS.items():
        assert isinstance(metric, Metric)
        assert metric.name == key
        assert metric.before != metric.after


@pytest.mark.parametrize("find", [prepared_task, estimated_task])
def test_a_task_has_a_part_if_it_defines_its_function(find):
    assert find("sst") is find_task("sst")
    assert find("deblurring") is None
    with pytest.raises(ConfigError, match="TASK is 'sstt', and there is no such task"):
        find("sstt")


@pytest.mark.parametrize(
    ("find", "function"), [(trainable_task, "build"), (evaluated_task, "evaluate")]
)
def test_a_task_without_a_required_function_is_refused(monkeypatch, find, function):
    assert find("sst") is find_task("sst")
    with pytest.raises(ConfigError, match="TASK is 'sstt', and there is no such task"):
        find("sstt")
    monkeypatch.delattr(find_task("sst"), function)
    with pytest.raises(ConfigError, match=rf"vrtspike\.sst\.task has no function {function};"):
        find("sst")


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


def test_a_metric_of_two_tasks_is_that_of_the_first(monkeypatch):
    second = {**OF_THE_SEA, "psnr": OF_THE_SEA["rmse"]}
    monkeypatch.setattr(find_task("sst"), "METRICS", second)
    assert all_metrics() == {**OF_THE_SEA, **OF_VIDEOS}
