"""VRT's published weights against the published result, with small ones of the published form."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.workflow.project import Project
from vrtspike.system.errors import EXIT_USER_ERROR

pytestmark = [pytest.mark.workflow, pytest.mark.shared]

PUBLISHED = "src/vrtspike/evaluation/paper_results"
VERIFICATION = (
    r"found ([\d.]+) dB, expected {expected} dB: the difference of ([-+][\d.]+) dB is {which}"
)


@pytest.fixture
def project(uncomputed_project: Project, shared) -> Project:
    """A copy whose preset ``reproduce`` is of the golden weights' size; only the test split."""
    configuration = json.loads((shared / "golden/vrt_tiny_config.json").read_text())
    shutil.rmtree(uncomputed_project.folder / "data/tiny/train")
    uncomputed_project.write(
        "config/presets/reproduce.yaml",
        f"""\
BASE: tiny
DATA: {{CLIP_LEN: 6, CROP_SIZE: 64}}
MODEL:
  VRT_DEPTHS: {configuration["depths"]}
  WINDOW_SIZE: {configuration["window_size"]}
  VRT:
    PRETRAINED: weights/golden.safetensors
    EMBED_DIMS: {configuration["embed_dims"]}
    NUM_HEADS: 3
    DEFORMABLE_GROUPS: 4
""",
    )
    return uncomputed_project


def refused(project: Project) -> str:
    done = project.snakemake("--cores", "1", "reproduce_vrt")
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    assert not (project.folder / "results/logs").exists()  # no job has begun
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.endurance
def test_the_published_result_is_looked_for_in_the_test_split_alone(project, shared):
    assert "no such file: weights/golden.safetensors" in refused(project)
    (project.folder / "weights").mkdir()
    weights = shared / "golden/vrt_tiny_weights.safetensors"
    shutil.copy(weights, project.folder / "weights/golden.safetensors")
    assert "1 sequences of 3 frames; the published result is of 11 of 1111" in refused(project)

    project.replace(f"{PUBLISHED}.py", "sequences=11, frames=1111", "sequences=1, frames=3")
    missed = project.snakemake("--cores", "2", "reproduce_vrt")
    assert missed.returncode not in (0, EXIT_USER_ERROR), missed.stdout
    verification = re.search(VERIFICATION.format(expected="34.81", which="beyond"), missed.stdout)
    assert verification is not None, missed.stdout
    psnr = float(verification[1])
    assert float(verification[2]) == pytest.approx(psnr - 34.81, abs=0.011)

    project.replace(f"{PUBLISHED}.csv", "34.81", f"{psnr:.2f}")
    done = project.make("reproduce_vrt")
    verification = re.search(VERIFICATION.format(expected=f"{psnr:.2f}", which="within"), done)
    assert verification is not None, done
    verdict = (project.folder / "results/reproduce_vrt/verdict.txt").read_text()
    assert verdict.startswith(verification[0])
    assert {path.name for path in (project.folder / "results").iterdir()} == {
        "reproduce_vrt", "logs", "benchmarks",
    }  # fmt: skip  # nothing was prepared or trained
