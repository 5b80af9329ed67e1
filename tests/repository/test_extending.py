"""The task of docs/extending.md in this process; workflow/test_third_task.py has Snakemake."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import vrtspike
from tests.repository.walks import read_walks
from vrtspike.analysis.evaluation_files import EvaluationJob
from vrtspike.config import load_preset
from vrtspike.config.tasks import TASKS, find_task
from vrtspike.runs.identity import identify, write_statistics
from vrtspike.runs.published import read_published
from vrtspike.training.run import train_preset


@pytest.fixture
def preset(repository, tmp_path, monkeypatch) -> Iterator[Path]:
    """The preset of the page, whose task is part of the package until the test ends."""
    for block in read_walks(repository / "docs/extending.md")["A task in the workflow"]:
        block.write(tmp_path)
    folders = [*vrtspike.__path__, str(tmp_path / "src/vrtspike")]
    monkeypatch.setattr(vrtspike, "__path__", folders)
    monkeypatch.setitem(TASKS, "waves", "vrtspike.waves.task")
    yield tmp_path / "config/presets/waves.yaml"
    for name in [name for name in sys.modules if name.startswith("vrtspike.waves")]:
        del sys.modules[name]
    del vrtspike.waves


def test_the_example_is_prepared_trained_and_measured(preset, tmp_path):
    settings = load_preset(preset, ["TRAIN.EPOCHS=2"])
    task = find_task("waves")
    manifest = tmp_path / task.data_folder(settings) / "dataset.json"
    manifest.parent.mkdir()
    task.prepare(settings, manifest, print)
    run, output = tmp_path / "run", tmp_path / "evaluation"
    identity = identify("waves", settings, manifest)
    identity.write(run)
    write_statistics(identity, run)
    assert train_preset(identity, run) == 0
    output.mkdir()
    job = EvaluationJob(
        run / "weights.safetensors", read_published(run), manifest, output, torch.device("cpu")
    )
    assert [line.partition(":")[0] for line in task.evaluate(job)] == list(task.METRICS)
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["frames"], summary["sequences"]) == (32, 16)
    assert summary["metrics"]["skill"]["gain"] > 0
    assert summary["metrics"]["rmse"]["gain"] > 0
