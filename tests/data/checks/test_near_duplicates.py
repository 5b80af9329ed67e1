"""Training sequences that stand in the test split as altered copies."""

from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest

from tests.data.conftest import SEQUENCES
from tests.data.prepared import checked
from vrtspike.data.checks.accept import accept
from vrtspike.data.checks.frame_summaries import THUMBNAIL_SIDE
from vrtspike.data.checks.near_duplicates import TrainingFrames
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import DataError

TRAINING, _, TEST = SEQUENCES


def as_jpeg(picture):
    encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 97])[1]
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR), np.uint8)


def brighter(picture):
    return np.minimum(picture.astype(np.int64) + 1, 255).astype(np.uint8)


@pytest.mark.parametrize("change", [as_jpeg, brighter])
def test_altered_copies_of_a_training_sequence(dataset, tmp_path, change):
    shutil.rmtree(dataset / TEST)
    shutil.copytree(dataset / TRAINING, dataset / TEST)
    for kind in ("blur", "sharp"):
        for path in (dataset / TEST / kind).iterdir():
            write_png(path, change(read_rgb(path)))
    manifests = checked(dataset, SEQUENCES, tmp_path / "ingest")
    with pytest.raises(DataError, match=rf"{TEST}: 3 of its 3 sharp frames .* {TRAINING}"):
        accept(manifests, AcceptOptions())
    accepted = accept(manifests, AcceptOptions(test_on_training_frames=True))
    assert accepted["overlaps"] == {TEST: TRAINING}


def test_two_frames_that_moved_are_evidence_and_one_is_none():
    """However many frames of the test split are copies of that one."""
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (4, THUMBNAIL_SIDE**2), dtype=np.uint8)
    training = TrainingFrames({"train/a": frames})
    assert training.copied_sequences(frames[[0, 2]]) == ["train/a"] * 2
    assert training.copied_sequences(frames[[1, 1, 1]]) == [""] * 3


def test_each_frame_has_the_sequence_that_it_comes_from():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (8, THUMBNAIL_SIDE**2), dtype=np.uint8)
    training = TrainingFrames({"train/a": frames[:3], "train/b": frames[3:6]})
    tested = frames[[6, 4, 0, 5, 4, 7]]
    assert training.copied_sequences(tested) == ["", "train/b", "", "train/b", "train/b", ""]


PATTERN = np.where(np.indices((THUMBNAIL_SIDE, THUMBNAIL_SIDE)).sum(axis=0) % 2, 1, -1)
"""A step from frame to frame of one grey level, without a change of the mean."""
QUARTER = np.where(np.arange(THUMBNAIL_SIDE)[:, None] < THUMBNAIL_SIDE // 4, PATTERN, 0)
"""Half such a step."""


def thumbnails(pictures):
    return np.stack(pictures).reshape(-1, THUMBNAIL_SIDE**2).astype(np.uint8)


def test_an_instant_between_two_frames_is_no_copy_of_them():
    """A frame beside a cut has one near neighbour, and one that is another picture."""
    shot = np.random.default_rng(0).integers(50, 200, PATTERN.shape)
    frames = [100 + 0 * PATTERN, 100 + PATTERN, shot, shot + PATTERN]
    training = TrainingFrames({"train/a": thumbnails(frames)})
    assert training.copied_sequences(thumbnails(frames)) == ["train/a"] * 4
    between = thumbnails([frame + QUARTER for frame in frames])
    assert training.copied_sequences(between) == [""] * 4


def test_frames_that_hardly_move_are_no_evidence():
    frames = thumbnails([100 + 0 * PATTERN, 100 + QUARTER, 100 + PATTERN - QUARTER, 100 + PATTERN])
    assert TrainingFrames({"train/a": frames}).copied_sequences(frames) == [""] * 4


def still(picture, first):
    return [picture] * 3


def moving(picture, first):
    return [np.roll(picture, -4 * (first + number), axis=1) for number in range(3)]


@pytest.mark.parametrize("scene", [still, moving])
def test_neighbouring_clips_and_still_scenes_are_no_copies(dataset, tmp_path, scene):
    """Sequences of one scene that share no frame: of other noise, or of other instants."""
    random = np.random.default_rng(0)
    paths = sorted((dataset / TRAINING / "sharp").iterdir())
    picture = read_rgb(paths[0]).astype(np.int64)
    for name, first in ((TRAINING, 0), (TEST, 3)):
        shutil.rmtree(dataset / name / "spike")
        for number, frame in enumerate(scene(picture, first), start=1):
            for kind in ("blur", "sharp"):
                noisy = np.clip(frame + random.integers(-2, 3, frame.shape), 0, 255)
                write_png(dataset / name / kind / f"{number:06d}.png", noisy.astype(np.uint8))
    manifests = checked(dataset, (TRAINING, TEST), tmp_path / "ingest", faults=[])
    assert accept(manifests, AcceptOptions())["overlaps"] == {}
