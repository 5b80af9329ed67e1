"""A preset that starts from the result of another one."""

from __future__ import annotations

import pytest

from tests.workflow.project import stages
from vrtspike.io.files import file_digest
from vrtspike.runs.identity import RunIdentity

pytestmark = pytest.mark.workflow


def test_the_run_that_it_starts_from_is_trained_before_and_decides_it(finished):
    start = finished.folder / "results/train/tiny"
    finished.write("config/presets/tuned.yaml", TUNED)
    told = finished.make("train_tuned")
    assert stages(told) == {"train": (1, 1)}
    tuned = RunIdentity.read(finished.folder / "results/train/tuned")
    assert tuned.weights == {"MODEL.PRETRAINED": file_digest(start / "weights.safetensors")}
    assert finished.why("train_tuned") == {}
    # Where its start is trained again, so is it.
    with finished.replaced("config/presets/tiny.yaml", "MAX_STEPS: 2", "MAX_STEPS: 3"):
        assert {"train tiny", "train tuned"} <= finished.why("train_tuned").keys()
        told = finished.snakemake("--dry-run", "train_tuned").stdout
    assert "tiny: TRAIN.MAX_STEPS raised: it is trained from the beginning" in told
    assert "BASE: tiny and MODEL.PRETRAINED: results/train/tiny" in told


TUNED = """\
BASE: tiny
MODEL: {PRETRAINED: results/train/tiny}
TRAIN: {MAX_STEPS: 2, OPTIM: {LR: 1.0e-5}}
"""
