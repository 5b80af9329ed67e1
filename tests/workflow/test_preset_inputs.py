"""Input functions of rules on several presets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from snakemake.io import is_flagged

from vrtspike.workflow.preset_inputs import after_datasets, evaluation_inputs, files_of, run_inputs

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
    files = after_datasets(manifests.__getitem__, ["a", "b", "c"])(JOB)
    assert files == ["k8.json", "k4.json"]
    assert all(is_flagged(file, "ancient") for file in files)
    assert after_datasets(manifests.__getitem__, wanted)(JOB) == ["k8.json"]


def test_inputs_of_comparisons_name_runs_evaluations_and_data():
    inputs = evaluation_inputs("{}.json".format, wanted)
    assert {name: files(JOB) for name, files in inputs.items()} == {
        "datasets": ["a.json", "b.json"],
        "runs": ["<results>/train/a/run.json", "<results>/train/b/run.json"],
        "evaluations": [
            "<results>/evaluate/a/summary.json",
            "<results>/evaluate/b/summary.json",
        ],
    }
    assert list(run_inputs("{}.json".format, wanted)) == ["datasets", "runs"]
