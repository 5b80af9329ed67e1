"""A preset that starts from a trained model: the result of another one, or the package's."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.workflow.project import stages
from vrtspike.io.files import file_digest, read_json
from vrtspike.runs.identity import RunIdentity

pytestmark = pytest.mark.workflow


def test_the_run_that_it_starts_from_is_trained_before_and_decides_it(finished):
    start = finished.folder / "results/train/tiny"
    finished.write("config/presets/tuned.yaml", TUNED)
    output = finished.make("train_tuned")
    assert stages(output) == {"train": (1, 1)}
    tuned = RunIdentity.read(finished.folder / "results/train/tuned")
    assert tuned.weights == {"MODEL.PRETRAINED": file_digest(start / "weights.safetensors")}
    assert finished.why("train_tuned") == {}
    # If its start is trained again, it is trained again, too.
    with finished.replaced("config/presets/tiny.yaml", "MAX_STEPS: 2", "MAX_STEPS: 3"):
        assert {"train tiny", "train tuned"} <= finished.why("train_tuned").keys()
        output = finished.snakemake("--dry-run", "train_tuned").stdout
    assert "tiny: TRAIN.MAX_STEPS raised: it is trained from the beginning" in output
    assert "BASE: tiny and MODEL.PRETRAINED: results/train/tiny" in output


def test_weights_of_the_package_are_evaluated_as_they_come_beside_a_training(finished):
    """Their pages and tables are tested by tests/evaluation/test_untrained_weights.py."""
    start, general = "results/train/tiny", "src/vrtspike/weights/general"
    # The project's own weights are of another network.
    shutil.rmtree(finished.folder / general, ignore_errors=True)
    packed = finished.python("-m", "vrtspike", "pack", start, "-o", general)
    assert packed.returncode == 0, packed.stderr
    finished.write("config/presets/kept.yaml", KEPT)
    counts = stages(finished.make("evaluate_kept"))
    assert counts == {"train": (1, 1), "evaluate": (1, 1)}
    results = finished.folder / "results"
    expected, result = (
        load_file(results / "train" / name / "weights.safetensors") for name in ("tiny", "kept")
    )
    assert all(torch.equal(result[name], tensor) for name, tensor in expected.items())
    assert "nothing was trained" in (results / "logs/train/kept.log").read_text()
    means = [
        read_json(results / "evaluate" / name / "summary.json")["metrics"]
        for name in ("tiny", "kept")
    ]
    assert means[0] == means[1]
    assert finished.why("evaluate_kept") == {}
    # Other weights give other metrics.
    weights = finished.folder / general / "weights.safetensors"
    weights.write_bytes((results / "train/other/weights.safetensors").read_bytes())
    assert "MODEL.PRETRAINED: other weights" in finished.why("evaluate_kept")["train kept"]


TUNED = """\
BASE: tiny
MODEL: {PRETRAINED: results/train/tiny}
TRAIN: {MAX_STEPS: 2, OPTIM: {LR: 1.0e-5}}
"""

KEPT = """\
BASE: tiny
MODEL: {PRETRAINED: general}
TRAIN: {MAX_STEPS: 0}
"""
