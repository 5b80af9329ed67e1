"""The stages before training: simulated data, and the acceptance that lists every fault at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.workflow.project import Project, stages, tiny_project
from tests.workflow.staleness import copied
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.io.files import read_json

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

SIMULATED = """\
SIMULATE:
  ROOT: data/simulated
  SEQUENCES:
    - {FRAMES: frames, SPLIT: train, SEQUENCE: walk, FRAMES_PER_EXPOSURE: 3}
    - {FRAMES: frames, SPLIT: test, SEQUENCE: walk, FRAMES_PER_EXPOSURE: 3}
SETTINGS: {DATA: {ROOT: data/simulated, TEST_ON_TRAINING_FRAMES: true}}
"""


@pytest.mark.endurance
def test_high_speed_frames_become_a_data_set(uncomputed_project):
    frames = uncomputed_project.folder / "frames"
    frames.mkdir()
    for number, frame in enumerate(render(SCENES[0], np.random.default_rng(0), 64, 96, 10)):
        cv2.imwrite(str(frames / f"{number:06d}.png"), frame)
    uncomputed_project.write("my.yaml", SIMULATED)
    target = ("results/data/simulated-test_on_training/k8/dataset.json", "--configfile", "my.yaml")
    uncomputed_project.make(*target)
    dataset = read_json(uncomputed_project.folder / target[0])
    assert {split: len(sequences) for split, sequences in dataset["splits"].items()} == {
        "train": 1,
        "test": 1,
    }
    assert dataset["overlaps"] == {"test/walk": "train/walk"}

    os.utime(frames / "000003.png")
    assert uncomputed_project.why(*target) == {}

    cv2.imwrite(str(frames / "000003.png"), np.zeros((64, 96, 3), np.uint8))
    assert "simulate" in uncomputed_project.why(*target)


def test_every_fault_is_listed_at_once_and_nothing_is_computed(uncomputed_project):
    root = uncomputed_project.folder / "data/tiny"
    broken = [
        sorted(root.glob("train/*/spike/000002.dat"))[0],
        next(root.glob("test/*/spike/000003.dat")),
    ]
    contents = [path.read_bytes() for path in broken]
    for path in broken:
        path.write_bytes(path.read_bytes()[:-1])
    incomplete = sorted(root.glob("train/*"))[1]
    (incomplete / "sharp").rename(incomplete / "shrap")
    missing = f"- train/{incomplete.name}: no sharp frames"
    target = "results/data/tiny/k8/dataset.json"
    assert missing in uncomputed_project.snakemake("--dry-run", target).stdout
    done = uncomputed_project.snakemake("--cores", "2", target, "--config", "SET=DATA.CROP_SIZE=72")
    assert done.returncode != 0
    # The whole message, however long, and after it what to do.
    message, _, rest = done.stdout.partition("error: accept tiny/8 failed")[2].partition("stopped")
    assert "fix the error" in rest
    for path in broken:
        assert str(path.relative_to(uncomputed_project.folder)) in message
    assert missing in message
    whole = "frames of 64 x 96, but crops of training and validation take 72 x 72"
    # Of what is trained on; the test split is not cropped.
    assert message.count(whole) == 1
    assert done.stdout.count(missing) == 1
    assert "Traceback" not in done.stdout
    assert list(uncomputed_project.folder.glob("results/data/tiny/k8/**/*.zarr")) == []

    for path, whole in zip(broken, contents, strict=True):
        path.write_bytes(whole)
    reasons = uncomputed_project.why(target)["ingest tiny"]
    for path in broken:
        assert f"raw files of {'/'.join(path.relative_to(root).parts[:2])}" in reasons
    (incomplete / "shrap").rename(incomplete / "sharp")
    assert "survey tiny" in uncomputed_project.why(target)


EXCLUDING = ("results/data/tiny-exclude/k8/dataset.json", "--configfile", "exclude.yaml")
"""Target and option of a data set without its faulty sequences."""


@dataclass(frozen=True)
class Excluding:
    """A project whose data set was made without a sequence.

    Attributes:
        project: the project.
        truncated: the faulty file of the sequence, relative to the project.
        contents: what the file would hold.
        printed: what Snakemake printed.
    """

    project: Project
    truncated: Path
    contents: bytes
    printed: str


@pytest.fixture(scope="module")
def excluding(repository, tmp_path_factory) -> Excluding:
    """It is one for all tests: look at it, or change a copy."""
    project = tiny_project(repository, tmp_path_factory.mktemp("excluding") / "project")
    truncated = sorted((project.folder / "data/tiny").glob("train/*/spike/000002.dat"))[0]
    contents = truncated.read_bytes()
    truncated.write_bytes(contents[:-1])
    project.write("exclude.yaml", "SETTINGS: {DATA: {ON_ERROR: exclude}}\n")
    printed = project.make(*EXCLUDING)
    return Excluding(project, truncated.relative_to(project.folder), contents, printed)


@pytest.fixture
def copy(excluding, tmp_path) -> Project:
    """A copy of the project, to be changed."""
    return copied(excluding.project, tmp_path / "project")


@pytest.mark.endurance
def test_faulty_sequences_are_left_out_on_request(excluding):
    project = excluding.project
    sequence = "/".join(excluding.truncated.parts[2:4])
    dataset = read_json(project.folder / EXCLUDING[0])
    assert list(dataset["excluded"]) == [sequence]
    assert "000002.dat" in dataset["excluded"][sequence][0]
    assert sequence not in {f"train/{entry['sequence']}" for entry in dataset["splits"]["train"]}
    assert f"EXCLUDED {sequence}: " in excluding.printed
    log = project.folder / "results/logs/accept/tiny-exclude/k8.log"
    assert f"EXCLUDED {sequence}: " in log.read_text(encoding="utf-8")
    assert project.why(*EXCLUDING) == {}


@pytest.mark.endurance
def test_a_sequence_that_was_left_out_is_taken_once_it_is_mended(copy, excluding):
    (copy.folder / excluding.truncated).write_bytes(excluding.contents)
    assert "ingest tiny-exclude" in copy.why(*EXCLUDING)
    copy.make(*EXCLUDING)
    assert read_json(copy.folder / EXCLUDING[0])["excluded"] == {}


@pytest.mark.endurance
def test_a_new_sequence_concerns_no_other(copy):
    frames = render(SCENES[3], np.random.default_rng(3), 64, 96, 10)
    # A name that a shell, an option or a YAML file might take for something else.
    name = "-added #2 'é'"
    write_sequence(copy.folder / "data/tiny/train" / name, frames, frames_per_exposure=3)
    output = copy.make(*EXCLUDING)
    assert len(list(copy.folder.glob("results/data/tiny-exclude/k8/t*/*.zarr"))) == 3
    expected = ["accept", "alignment", "ingest", "statistics", "survey", "voxelize"]
    assert stages(output) == dict.fromkeys(expected, (1, 1))
    train = read_json(copy.folder / EXCLUDING[0])["splits"]["train"]
    assert train[0]["sequence"] == name
