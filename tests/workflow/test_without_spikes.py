"""Blurry and sharp frames only: every program of the way, from the survey to the figures."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.workflow.project import TINY
from vrtspike.deblurring.data.simulation.demo import SCENES, render
from vrtspike.deblurring.data.simulation.sensor import synthesize_blur
from vrtspike.files import read_json
from vrtspike.images import write_png

SEQUENCES = (("train", 0), ("test", 8))
BINS = 8


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Two sequences in GoPro's folders: three pairs of frames of 64 x 96 pixels each."""
    root = tmp_path_factory.mktemp("gopro")
    for split, number in SEQUENCES:
        frames = list(render(SCENES[number], np.random.default_rng(number), 64, 96, 9))
        for name in range(3):
            exposure = frames[3 * name : 3 * name + 3]
            for kind, picture in (("blur", synthesize_blur(exposure)), ("sharp", exposure[1])):
                folder = root / split / SCENES[number].name / kind
                folder.mkdir(parents=True, exist_ok=True)
                write_png(folder / f"{name:06d}.png", picture)
    return root


@pytest.fixture(scope="module")
def script(repository):
    def run(name, *arguments, status=0):
        command = [sys.executable, repository / "scripts" / f"{name}.py", *arguments]
        done = subprocess.run(
            [*map(str, command)],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def dataset(script, raw, tmp_path_factory):
    """The data set's manifest, made by the programs of the workflow."""
    results = tmp_path_factory.mktemp("results")
    survey = results / "survey.json"
    assert "2 sequences, 6 frames, spk_gopro, without spikes" in script(
        "survey", "--root", raw, "--output", survey
    )
    share = "shares/0-of-1.json"
    out = script(
        *("ingest", "--root", raw, "--survey", survey, "--ingested", results / "ingest"),
        *("--output", results / "ingest" / share),
    )
    assert out.count("3 frames, no spikes, 0 faults") == 2
    accepted = results / "accepted.json"
    script(
        *("accept", "--survey", survey, "--ingested", results / "ingest"),
        *("--bins", BINS, "--output", accepted),
    )
    script(
        *("voxelize", "--root", raw, "--accepted", accepted, "--ingested", results / "ingest"),
        *("--stores", results / "k8", "--bins", BINS, "--output", results / "k8" / share),
    )
    manifest = results / "k8" / "dataset.json"
    assert "no spikes" in script(
        *("dataset_statistics", "--accepted", accepted, "--stores", results / "k8"),
        *("--dataset", "gopro", "--bins", BINS, "--output", manifest),
    )
    return manifest


@pytest.fixture(scope="module")
def train(script, dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "presets").mkdir()
    (folder / "presets" / "spikes.yaml").write_text(TINY)
    (folder / "presets" / "plain.yaml").write_text("BASE: spikes\nMODEL: {USE_SPIKE: false}\n")
    config = folder / "config.yaml"
    config.write_text(f"PRESET_DIR: {folder / 'presets'}\nPRESETS: [plain]\nGPUS: 0\n")

    def launch(preset, status=0):
        output = folder / "train" / preset
        text = script(
            *("launch_training", "--preset", preset, "--configfile", config),
            *("--dataset", dataset, "--runs", folder / "runs", "--output", output),
            status=status,
        )
        return output, text

    return launch


@pytest.mark.endurance
@pytest.mark.workflow
def test_the_ablation_trains_and_is_evaluated_without_spike_files(script, train, dataset, tmp_path):
    result, _ = train("plain")
    record = read_json(result / "run.json")
    assert (record["status"], record["step"]) == ("finished", 2)
    assert read_json(result / "statistics.json")["statistics"] is None
    script(
        *("evaluate", "--weights", result / "weights.safetensors", "--dataset", dataset),
        *("--settings", result / "settings.json", "--output", tmp_path, "--device", "cpu"),
    )
    summary = read_json(tmp_path / "summary.json")
    assert (summary["use_spike"], summary["frames"]) == (False, 3)
    assert summary["metrics"]["psnr"]["restored"] > 10


@pytest.mark.workflow
def test_a_preset_with_spikes_is_refused_before_training(train):
    result, message = train("spikes", status=2)
    assert "no sequence of this data set has spike files" in message
    assert "USE_SPIKE to false" in message
    assert not result.exists()
    assert not (result.parents[1] / "runs" / "spikes").exists()
