from __future__ import annotations

import json

import pytest

from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.record import RunRecord, read_record

RUN = RunIdentity("small", Settings(), "dataset.json", "abc", "d")


def test_record_keeps_every_start(tmp_path):
    for step in (0, 40):
        record = RunRecord(tmp_path, enabled=True)
        record.start(RUN, step, processes=step + 1)
    record.update("finished", 100, metrics={"psnr": 30.0})
    RunRecord(tmp_path, enabled=False).update("failed", 0)
    found = read_record(tmp_path)
    assert [start["step"] for start in found["starts"]] == [0, 40]
    assert (found["status"], found["step"], found["processes"]) == ("finished", 100, 41)
    assert found["metrics"] == {"psnr": 30.0}
    assert (found["name"], found["fingerprint"], found["dataset_digest"]) == ("small", "abc", "d")


def test_a_failure_that_was_overcome_is_forgotten(tmp_path):
    record = RunRecord(tmp_path, enabled=True)
    record.start(RUN, 0)
    record.update("failed", 3, failure="RuntimeError: no space left")
    assert read_record(tmp_path)["failure"] == "RuntimeError: no space left"
    record = RunRecord(tmp_path, enabled=True)
    record.start(RUN, 2)
    record.update("finished", 10)
    assert "no space left" not in (tmp_path / "run.json").read_text()
    assert "failure" not in read_record(tmp_path)


def test_figures_that_are_not_finite_are_null(tmp_path):
    record = RunRecord(tmp_path, enabled=True)
    record.update("finished", 1, metrics={"psnr": float("inf"), "ssim": 1.0})
    assert read_record(tmp_path)["metrics"] == {"psnr": None, "ssim": 1.0}


def test_no_record_and_a_damaged_one(tmp_path):
    assert read_record(tmp_path) is None
    path = tmp_path / "run.json"
    for text, message in (
        (json.dumps({"status": "finished"})[:9], "damaged, no JSON"),
        ("[]", "not the record of a run"),
        ("{}", "not the record of a run"),
    ):
        path.write_text(text)
        with pytest.raises(RunError, match=rf"run\.json: {message}"):
            read_record(tmp_path)
