"""Training sequences that stand in the test split as altered copies."""

from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import checked
from vrtspike.deblurring.data.gate.accept import accept
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
        accept(manifests)
    accepted = accept(manifests, test_on_training_frames=True)
    assert accepted["overlaps"] == {TEST: TRAINING}


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
    assert accept(manifests)["overlaps"] == {}
