"""A published result outlives a new training that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.project import Project
from vrtspike.workflow.former_results import FormerResults

NAMES = ("weights.safetensors", "run.json")
DATE_NS = 10**18


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A published result, and the file of another one that there is not yet."""
    paths = [tmp_path / "train/p" / name for name in NAMES]
    paths[0].parent.mkdir(parents=True)
    for path in paths:
        path.write_text(path.name)
        os.utime(path, ns=(DATE_NS, DATE_NS))
    return [*paths, tmp_path / "train/new/run.json"]


@pytest.fixture
def former(files: list[Path], tmp_path: Path) -> FormerResults:
    former = FormerResults(tmp_path)
    former.keep(map(str, files))
    return former


def rewritten(files: list[Path]) -> None:
    for path in files[:2]:
        path.write_text(path.read_text())


def removed(files: list[Path]) -> None:
    for path in files[:2]:
        path.unlink()
    files[0].parent.rmdir()


@pytest.mark.parametrize("lose", [rewritten, removed])
def test_after_a_failure_contents_and_dates_are_as_before(former, files, tmp_path, lose):
    lose(files)
    assert former.restore() == [f"{tmp_path}/train/p: the former result is kept"]
    assert [path.read_text() for path in files[:2]] == list(NAMES)
    assert {path.stat().st_mtime_ns for path in files[:2]} == {DATE_NS}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "train"]
    assert [path.name for path in (tmp_path / "train").iterdir()] == ["p"]


def test_what_was_not_touched_is_not_mentioned(former):
    assert former.restore() == []


def test_a_new_result_stays(former, files, tmp_path):
    removed(files)
    files[0].parent.mkdir()
    for path in files[:2]:
        path.write_text("new")
    assert former.restore() == []
    assert {path.read_text() for path in files[:2]} == {"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "train"]


KEEP_AND_DIE = """
import os, signal, sys
from pathlib import Path
from vrtspike.workflow.former_results import FormerResults
FormerResults(Path(sys.argv[2])).keep([sys.argv[1]])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_copies_of_a_killed_process_are_removed(files, tmp_path):
    done = subprocess.run([sys.executable, "-c", KEEP_AND_DIE, files[0], tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    (abandoned,) = tmp_path.glob(".former-*")
    FormerResults(tmp_path).remove_abandoned()
    assert not abandoned.exists()


def test_copies_of_a_running_process_stay(former, files, tmp_path):
    FormerResults(tmp_path).remove_abandoned()
    removed(files)
    assert former.restore() == [f"{tmp_path}/train/p: the former result is kept"]


SUBMIT = "#!/bin/sh\n( sh $1 > $1.out 2>&1; echo $? > $1.status ) > $1.log 2>&1 &\necho $1\n"
STATE = """#!/bin/sh
test -f $1.status || { echo running; exit; }
test "$(cat $1.status)" = 0 && echo success || echo failed
"""
CLUSTER = (
    "--executor cluster-generic --jobs 1 --cluster-generic-submit-cmd ./submit "
    "--cluster-generic-status-cmd ./state"
)


@pytest.mark.workflow
@pytest.mark.endurance
@pytest.mark.parametrize("executor", ["--cores 1", CLUSTER], ids=["local", "cluster"])
def test_a_failing_training_loses_nothing_and_makes_nothing_stale(finished: Project, executor):
    for name, text in (("submit", SUBMIT), ("state", STATE)):
        finished.write(name, text).chmod(0o755)
    weights = finished.folder / "results/train/other/weights.safetensors"
    contents, program = weights.read_bytes(), "scripts/launch_training.py"
    with (
        finished.replaced("config/presets/other.yaml", "1.0e-4", "4.0e-4"),
        finished.replaced(program, "program = ", "raise SystemExit('failed on purpose')\n    "),
    ):
        done = finished.snakemake(*executor.split(), "train_other")
    assert done.returncode == 1, done.stdout
    assert "results/train/other: the former result is kept" in done.stdout.splitlines()
    assert "no backup found" not in done.stdout
    assert weights.read_bytes() == contents
    assert finished.why("evaluate_other") == {}
