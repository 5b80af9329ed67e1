"""Frames of another model, frames in a folder."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.restoration.folder_runs import NAMES
from vrtspike.io.images import write_png
from vrtspike.restoration.page.compared_frames import is_restored_folder, read_compared
from vrtspike.system.errors import DataError, RunError

SIZE = (48, 64)


def test_frames_with_a_record_and_without(whole, small_run, tmp_path):
    job, record = whole
    frames = read_compared(job.output, NAMES[1:], SIZE)
    assert frames.label == record["model"]["name"]
    assert frames.origin == f"{frames.label}, {record['model']['fingerprint']}"
    assert frames.files == [job.output / f"restored/{name}.png" for name in NAMES[1:]]
    plain = shutil.copytree(job.output / "restored", tmp_path / "by hand")
    frames = read_compared(plain, NAMES, SIZE)
    assert (frames.label, frames.origin) == ("by hand", str(plain))
    assert frames.files == [plain / f"{name}.png" for name in NAMES]
    for frame in plain.iterdir():
        frame.rename(frame.with_suffix(".PNG"))
    assert [is_restored_folder(path) for path in (job.output, plain)] == [True, True]
    run = shutil.copytree(small_run.train, tmp_path / "run")
    write_png(run / "curves.png", np.zeros((4, 4, 3), np.uint8))
    write_png(tmp_path / "hidden" / "._1.png", np.zeros((4, 4, 3), np.uint8))
    places = (run, tmp_path, tmp_path / "nowhere", tmp_path / "hidden")
    assert [is_restored_folder(path) for path in places] == [False] * 4


def test_frames_that_cannot_be_compared_are_refused(whole, tmp_path):
    with pytest.raises(DataError, match=r"no restored frame to compare with \(1\):\n  - other"):
        read_compared(whole[0].output, [*NAMES, "other"], SIZE)
    with pytest.raises(DataError, match="48 x 64 pixels, expected 96 x 128"):
        read_compared(whole[0].output, NAMES, (96, 128))
    write_png(tmp_path / "restored/000001.png", np.zeros((48, 64, 3), np.uint8))
    (tmp_path / "restore.json").write_text(json.dumps({"schema": 7, "model": {}}))
    with pytest.raises(RunError, match="the restoration is not finished"):
        read_compared(tmp_path, NAMES[:1], SIZE)
