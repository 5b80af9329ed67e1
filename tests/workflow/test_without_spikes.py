"""Blurry and sharp frames only: the whole way, from the survey to the metrics."""

from __future__ import annotations

import shutil

import pytest

from tests.workflow.project import Project
from vrtspike.io.files import read_json
from vrtspike.system.errors import EXIT_USER_ERROR

pytestmark = pytest.mark.workflow


@pytest.fixture
def frames_only(uncomputed_project: Project) -> Project:
    for folder in (uncomputed_project.folder / "data/tiny").glob("*/*/spike"):
        shutil.rmtree(folder)
    uncomputed_project.write("config/presets/plain.yaml", "BASE: tiny\nMODEL: {USE_SPIKE: false}\n")
    return uncomputed_project


@pytest.mark.endurance
def test_an_ablation_trains_and_is_evaluated_without_spike_files(frames_only):
    frames_only.make("evaluate_plain")
    results = frames_only.folder / "results"
    (survey,) = results.glob("logs/survey/*.log")
    assert "3 sequences, 9 frames, spk_gopro, without spikes" in survey.read_text()
    assert read_json(results / "train/plain/statistics.json")["statistics"] is None
    summary = read_json(results / "evaluate/plain/summary.json")
    assert (summary["use_spike"], summary["frames"]) == (False, 3)
    assert summary["metrics"]["psnr"]["restored"] > 10


def test_a_preset_with_spikes_is_refused(frames_only):
    done = frames_only.snakemake("--cores", "1", "train_tiny")
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert "error: preset tiny, data/tiny: no sequence of this data" in done.stdout
    assert "USE_SPIKE to false" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (frames_only.folder / "results/data").exists()
