"""Folder of a run: lock, status, record of starts, runs set aside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from vrtspike.io.files import write_json
from vrtspike.runs.folder import RunRecord, is_finished, lock_run, read_record, set_aside
from vrtspike.system.errors import RunError

USER, HOST = psutil.Process().username(), socket.gethostname()

PROGRAM = """
import contextlib, sys
from pathlib import Path
from vrtspike.runs.folder import lock_run
show = lambda text: print(text, flush=True)
folder, is_launcher = Path(sys.argv[1]), sys.argv[2] == "launcher"
with lock_run(folder, 600, show, "launcher.lock") if is_launcher else contextlib.nullcontext():
    with lock_run(folder):  # what trains is another process of the launcher's
        show("at work")
        sys.stdin.read()
"""


def start(folder: Path, role: str, job: str = "12") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), role],
        env={**os.environ, "SLURM_JOB_ID": job},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_run_is_locked_by_one_process_until_it_dies(tmp_path):
    holder = start(tmp_path, "training")
    assert holder.stdout.readline() == "at work\n"
    notes: list[str] = []
    refused = pytest.raises(RunError, match=rf"process {holder.pid} of .* is training")
    with refused, lock_run(tmp_path, timeout_s=0.3, note=notes.append):
        pass
    assert len(notes) == 1
    holder.kill()
    holder.communicate()
    with lock_run(tmp_path, timeout_s=0, note=notes.append):
        pass
    assert len(notes) == 1


def test_a_second_launcher_names_the_first_one_and_waits_for_it(tmp_path):
    first = start(tmp_path, "launcher")
    assert first.stdout.readline() == "at work\n"
    second = start(tmp_path, "launcher", "13")
    assert second.stdout.readline() == (
        f"{tmp_path}: waiting for Slurm job 12 (process {first.pid} of {USER} on {HOST}), "
        "which is training there, to end\n"
    )
    first.kill()
    first.communicate()
    assert second.stdout.readline() == "at work\n"
    second.kill()
    second.communicate()


def test_only_the_status_finished_is_finished(tmp_path):
    assert not is_finished(tmp_path)
    for status in ("running", "interrupted", "failed", "finished"):
        write_json(tmp_path / "run.json", {"status": status})
        assert is_finished(tmp_path) == (status == "finished")


def test_a_run_that_is_set_aside_keeps_its_files(tmp_path):
    folder = tmp_path / "abc"
    for number in (1, 2):
        write_json(folder / "run.json", {"status": "finished", "number": number})
        assert set_aside(folder) == tmp_path / f"abc.{number}"
        assert not folder.exists()
        assert f'"number": {number}' in (tmp_path / f"abc.{number}/run.json").read_text()


@pytest.mark.parametrize(
    "hold",
    [lock_run, lambda folder: lock_run(folder, lock="launcher.lock")],
    ids=["training", "launching"],
)
def test_a_locked_run_is_not_set_aside(tmp_path, hold):
    """Nor one whose launcher waits for a GPU: it would train in the place of the next."""
    folder = tmp_path / "abc"
    with hold(folder), pytest.raises(RunError, match="is training in this run folder"):
        set_aside(folder)
    assert folder.is_dir()


def test_the_record_keeps_every_start_and_the_failure_of_the_last_one_only(tmp_path):
    for step in (0, 40):
        record = RunRecord(tmp_path, enabled=True)
        record.start(step, processes=step + 1)
        record.update("failed", step, failure="RuntimeError: no space left")
        assert read_record(tmp_path)["failure"] == "RuntimeError: no space left"
    record = RunRecord(tmp_path, enabled=True)
    record.start(50)
    record.update("finished", 100, metrics={"psnr": float("inf"), "ssim": 1.0})
    RunRecord(tmp_path, enabled=False).update("failed", 0)
    result = read_record(tmp_path)
    assert [start["step"] for start in result["starts"]] == [0, 40, 50]
    assert (result["status"], result["step"], result["processes"]) == ("finished", 100, 41)
    assert result["metrics"] == {"psnr": None, "ssim": 1.0}
    assert "failure" not in result


def test_no_record_and_a_damaged_one(tmp_path):
    assert read_record(tmp_path) is None
    path = tmp_path / "run.json"
    for text, message in (
        (json.dumps({"status": "finished"})[:9], "damaged, no JSON"),
        ("[]", "expected a mapping"),
        ("{}", "not the record of a run"),
    ):
        path.write_text(text)
        with pytest.raises(RunError, match=rf"run\.json: {message}"):
            read_record(tmp_path)
