from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from vrtspike.errors import RunError
from vrtspike.files import write_json
from vrtspike.runs.folder import find_run_folder, hold_run, is_finished, set_aside, take_turn

HOLD = """
import sys
from pathlib import Path
from vrtspike.runs.folder import hold_run
with hold_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_held_by_one_process_and_freed_by_its_death(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    notes: list[str] = []
    refused = pytest.raises(RunError, match=f"process {holder.pid} on .* is training")
    with refused, hold_run(tmp_path, patience_s=0.3, note=notes.append):
        pass
    assert len(notes) == 1
    assert f"waiting for process {holder.pid}" in notes[0]
    holder.kill()
    holder.communicate()
    with hold_run(tmp_path, patience_s=0, note=notes.append):
        pass
    assert len(notes) == 1


TURN = """
import sys
from pathlib import Path
from vrtspike.runs.folder import hold_run, take_turn
with take_turn(Path(sys.argv[1]), lambda text: print(text, flush=True)):
    with hold_run(Path(sys.argv[1])):  # what trains is another process of the launcher's
        print("its turn", flush=True)
        sys.stdin.read()
"""


def test_a_launcher_says_whom_it_waits_for_and_has_its_turn_when_that_is_gone(tmp_path):
    def start(job: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", TURN, str(tmp_path)],
            env={**os.environ, "SLURM_JOB_ID": job},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    first = start("12")
    assert first.stdout.readline() == "its turn\n"
    second = start("13")
    assert second.stdout.readline() == (
        f"{tmp_path}: waiting for Slurm job 12 (process {first.pid} on {socket.gethostname()}), "
        "which is training there, to end\n"
    )
    first.kill()
    first.communicate()
    assert second.stdout.readline() == "its turn\n"
    second.kill()
    second.communicate()


def test_only_a_finished_run_is_finished(tmp_path):
    assert not is_finished(tmp_path)
    for status in ("running", "interrupted", "failed", "finished"):
        write_json(tmp_path / "run.json", {"status": status})
        assert is_finished(tmp_path) == (status == "finished")
    (tmp_path / "run.json").write_text('{"status": "fin')
    with pytest.raises(RunError, match=r"run\.json: damaged, no JSON"):
        is_finished(tmp_path)


def test_a_run_that_makes_room_is_kept(tmp_path):
    folder = tmp_path / "abc"
    for number in (1, 2):
        write_json(folder / "run.json", {"status": "finished", "number": number})
        assert set_aside(folder) == tmp_path / f"abc.{number}"
        assert not folder.exists()
        assert f'"number": {number}' in (tmp_path / f"abc.{number}/run.json").read_text()


@pytest.mark.parametrize(
    "hold", [hold_run, lambda folder: take_turn(folder, print)], ids=["training", "launching"]
)
def test_a_run_at_work_makes_no_room(tmp_path, hold):
    """Nor one whose launcher waits for a GPU: it would train in the place of the next."""
    folder = tmp_path / "abc"
    with hold(folder), pytest.raises(RunError, match="is training in this run folder"):
        set_aside(folder)
    assert folder.is_dir()


def test_a_run_is_found_by_folder_preset_or_parent(tmp_path, publish):
    runs = tmp_path / "train"
    folder = publish("one")
    old, new = runs / "preset/a", runs / "preset/b"
    for place, date in ((old, 1_000), (new, 2_000)):
        place.mkdir(parents=True)
        (place / "run.json").write_text("{}")
        os.utime(place / "run.json", (date, date))
    assert find_run_folder(folder, runs) == folder
    assert find_run_folder(runs / "preset", tmp_path / "nowhere") == new
    assert find_run_folder(type(runs)("preset"), runs) == new
    with pytest.raises(RunError, match=r"nosuch: no run there; .*runs of: one, preset"):
        find_run_folder(type(runs)("nosuch"), runs)
