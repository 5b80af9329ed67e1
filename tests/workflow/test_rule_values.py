"""Values of rules: options of an evaluation, benchmark files, inputs on several presets."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

import pytest
from snakemake.io import is_flagged

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.workflow.rule_values import (
    PresetInputs,
    benchmark_files,
    evaluation_overrides,
    files_of,
    nested_call,
)


def test_a_shell_passes_all_test_settings_and_no_others():
    test = {"TILE": {"SIZE": 64, "FRAMES": None}, "METRICS": ["psnr", "ssim"]}
    settings = DeblurringSettings.model_validate({"TEST": test, "TRAIN": {"MAX_STEPS": 7}})
    option, *pairs = shlex.split(evaluation_overrides(settings))
    assert option == "--set"
    assert "TEST.TILE.SIZE=64" in pairs
    assert parse_overrides(pairs).tree == {"TEST": settings.TEST.model_dump(mode="json")}


def test_a_task_without_test_settings_passes_none():
    assert evaluation_overrides(RunSettings()) == ""


def test_a_nested_call_names_a_snakefile_elsewhere_and_what_was_typed(repository, monkeypatch):
    monkeypatch.chdir(repository)
    assert nested_call(str(repository / "workflow/Snakefile"), [], []) == "--cores 1 --nolock"
    assert nested_call("/other/Snakefile", [], ["A=1"]).endswith(
        " --snakefile /other/Snakefile --config A=1"
    )


def test_files_of_jobs_of_presets_and_of_their_data_are_listed(tmp_path):
    files = ["demo_data.tsv", "train/demo.tsv", "survey/demo.tsv", "accept/demo/k8.tsv"]
    others = ["demo.tsv", "train/baseline.tsv", "train/light.tsv", "logs.txt"]
    second = ["train/light_demo.tsv", "light_demo.tsv"]
    for name in (*files, *others, *second):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    expected = [str(tmp_path / name) for name in files]
    assert benchmark_files(tmp_path, ["demo"]) == sorted(expected)
    expected += [str(tmp_path / name) for name in second]
    assert benchmark_files(tmp_path, ["demo", "light_demo"]) == sorted(expected)


JOB = SimpleNamespace(presets=["a", "b"])


def wanted(wildcards: SimpleNamespace) -> list[str]:
    """The presets of a job."""
    return list(wildcards.presets)


@pytest.mark.parametrize("presets", [["a", "b"], wanted])
def test_each_preset_has_a_file_for_each_combination_of_values(presets):
    assert files_of("<results>/{preset}.json", presets)(JOB) == [
        "<results>/a.json",
        "<results>/b.json",
    ]
    logs = files_of("{preset}/{log}", presets, log=["x", "y"])(JOB)
    assert sorted(logs) == ["a/x", "a/y", "b/x", "b/y"]


def test_a_data_set_of_several_presets_is_one_input_whose_date_does_not_count():
    manifests = {"a": "k8.json", "b": "k8.json", "c": "k4.json"}
    files = PresetInputs(manifests.__getitem__).datasets(["a", "b", "c"])(JOB)
    assert files == ["k8.json", "k4.json"]
    assert all(is_flagged(file, "ancient") for file in files)
    assert PresetInputs(manifests.__getitem__).datasets(wanted)(JOB) == ["k8.json"]


def test_inputs_of_comparisons_name_runs_evaluations_and_data():
    inputs = PresetInputs("{}.json".format).evaluations(wanted)
    assert {name: files(JOB) for name, files in inputs.items()} == {
        "datasets": ["a.json", "b.json"],
        "runs": ["<results>/train/a/run.json", "<results>/train/b/run.json"],
        "evaluations": [
            "<results>/evaluate/a/summary.json",
            "<results>/evaluate/b/summary.json",
        ],
    }
    assert list(PresetInputs("{}.json".format).runs(wanted)) == ["datasets", "runs"]
