"""Registry of problems: discovery, interface, unknown names, metrics of equal names."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from vrtspike.analysis.evaluation_files import EvaluatedProblem, evaluated_problem
from vrtspike.config.loading import load_preset
from vrtspike.config.problems import (
    PROBLEMS,
    EstimatedProblem,
    Metric,
    PreparedProblem,
    Problem,
    all_metrics,
    estimated_problem,
    find_problem,
    prepared_problem,
)
from vrtspike.config.run_schema import DEFAULT_PROBLEM, RunSettings
from vrtspike.metrics.registry import METRICS as OF_VIDEOS
from vrtspike.sst.settings import METRICS as OF_THE_SEA
from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError
from vrtspike.training.run import TrainableProblem, trainable_problem


def functions(*parts: type) -> dict[str, list[inspect.Parameter]]:
    """The parameters of the functions of some parts of the interface, by name."""
    return {
        name: list(inspect.signature(member).parameters.values())[1:]  # without self
        for part in parts
        for name, member in vars(part).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


REQUIRED = functions(Problem, TrainableProblem, EvaluatedProblem)
OF_PREPARE = functions(PreparedProblem)
OPTIONAL = OF_PREPARE | functions(EstimatedProblem)
VALUES = set(Problem.__annotations__)


def test_each_package_with_a_module_of_this_name_is_a_problem():
    names = ("deblurring", "sst")
    assert PROBLEMS == {name: f"vrtspike.{name}.problem" for name in names}
    # What the next test looks at.
    assert {"SETTINGS", "METRICS"} == VALUES
    assert (len(REQUIRED), len(OF_PREPARE), len(OPTIONAL)) == (8, 3, 4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_has_the_whole_interface(name):
    problem = find_problem(name)
    assert {member for member in VALUES if not hasattr(problem, member)} == set()
    assert issubclass(problem.SETTINGS, RunSettings)
    present = {name for name in OPTIONAL if hasattr(problem, name)}
    assert present & OF_PREPARE.keys() in (set(), OF_PREPARE.keys())
    for function, expected in (REQUIRED | OPTIONAL).items():
        if function in OPTIONAL.keys() - present:
            continue
        result = inspect.signature(getattr(problem, function)).parameters.values()
        assert [(p.name, p.kind) for p in result] == [(p.name, p.kind) for p in expected], function
    assert problem.METRICS
    for key, metric in problem.METRICS.items():
        assert isinstance(metric, Metric)
        assert metric.name == key
        assert metric.before != metric.after


@pytest.mark.parametrize("find", [prepared_problem, estimated_problem])
def test_a_problem_has_a_part_if_it_defines_its_function(find):
    assert find("sst") is find_problem("sst")
    assert find("deblurring") is None
    with pytest.raises(ConfigError, match="TASK is 'sstt', and there is no such problem"):
        find("sstt")


@pytest.mark.parametrize(
    ("find", "function"), [(trainable_problem, "build"), (evaluated_problem, "evaluate")]
)
def test_a_problem_without_a_required_function_is_refused(monkeypatch, find, function):
    assert find("sst") is find_problem("sst")
    with pytest.raises(ConfigError, match="TASK is 'sstt', and there is no such problem"):
        find("sstt")
    monkeypatch.delattr(find_problem("sst"), function)
    with pytest.raises(ConfigError, match=rf"vrtspike\.sst\.problem has no function {function};"):
        find("sst")


def test_data_of_rules_of_their_own_are_not_prepared(repository, tmp_path):
    command = [sys.executable, "scripts/prepare.py", "--preset", "demo"]
    command += ["--output", str(tmp_path / "dataset.json")]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == EXIT_USER_ERROR
    assert "--preset demo: TASK is deblurring, whose data are made by its own rules" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("sstt", "TASK is 'sstt', and there is no such problem; there are: deblurring, sst"),
        ("3", "TASK is 3, and there is no such problem"),
        ("[sst]", "TASK is ['sst'], and there is no such problem"),
    ],
)
def test_an_unknown_problem_is_reported_with_file_and_line(tmp_path, problem, message):
    path = tmp_path / "preset.yaml"
    path.write_text("SEED: 1\n")
    assert load_preset(path).TASK == DEFAULT_PROBLEM == "deblurring"
    path.write_text(f"SEED: 1\nTASK: {problem}\n")
    with pytest.raises(ConfigError) as caught:
        load_preset(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


def test_a_metric_of_two_problems_is_that_of_the_first(monkeypatch):
    second = {**OF_THE_SEA, "psnr": OF_THE_SEA["rmse"]}
    monkeypatch.setattr(find_problem("sst"), "METRICS", second)
    assert all_metrics() == {**OF_THE_SEA, **OF_VIDEOS}
