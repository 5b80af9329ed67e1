"""Evaluation in one call, beside that of the stage."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from vrtspike.api.evaluating import evaluate
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published
from vrtspike.system.errors import ConfigError, RunError


def test_metrics_are_those_of_the_stage(small_run, tmp_path):
    evaluation = evaluate(str(small_run.train), device="cpu")
    identity = read_published(small_run.train)
    job = EvaluationJob(
        small_run.train / "weights.safetensors",
        identity,
        small_run.dataset,
        tmp_path,
        torch.device("cpu"),
    )
    expected = evaluate_run(job)
    assert evaluation.summary["metrics"] == json.loads(json.dumps(expected["metrics"]))
    assert evaluation.folder is None
    assert sorted(evaluation.sequences["sequence"]) == ["b", "c"]
    assert len(evaluation.frames) == 10
    assert evaluation.frames["frame"].iloc[0] == "000001"  # a name, no number
    first, *table = repr(evaluation).splitlines()
    assert first == "small: 10 frames, 2 sequences"
    assert f"{expected['metrics']['psnr']['restored']:.2f}" in "".join(table)


def test_an_output_folder_keeps_everything_and_overrides_apply(small_run, tmp_path):
    output = tmp_path / "new/evaluation"
    evaluation = evaluate(small_run.train, {"TEST.METRICS": ["psnr"]}, output=output, device="cpu")
    assert evaluation.folder == output
    assert {"summary.json", "frames.csv", "pictures"} <= {path.name for path in output.iterdir()}
    assert set(evaluation.summary["metrics"]) == {"psnr"}


def test_keys_of_the_training_and_missing_data_are_refused(small_run, tmp_path):
    with pytest.raises(ConfigError, match="would change the settings of the training"):
        evaluate(small_run.train, {"TRAIN.MAX_STEPS": 3})
    moved = shutil.copytree(small_run.train, tmp_path / "moved")
    settings = json.loads((moved / "settings.json").read_text())
    (moved / "settings.json").write_text(json.dumps(settings | {"dataset": "no/dataset.json"}))
    with pytest.raises(RunError, match=r"no/dataset\.json: no such file, .* \(os\.chdir\)"):
        evaluate(moved, output=tmp_path / "out")
    with pytest.raises(ConfigError, match=r"TEST\.METRICS: found set, expected a number"):
        evaluate(small_run.train, {"TEST.METRICS": {"psnr"}})
    assert not (tmp_path / "out").exists()
