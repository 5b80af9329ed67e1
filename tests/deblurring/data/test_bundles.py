"""Sequences worked through by a stage made for these tests."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel_locks import is_waited_for
from vrtspike.deblurring.data.bundles import Made, make_share
from vrtspike.deblurring.data.manifests import INGEST_SHARE
from vrtspike.errors import DataError, DiskFullError, RunError
from vrtspike.files import read_json
from vrtspike.manifests import read_manifest

NAMES = ["test/c", "train/a", "train/b.1"]


@dataclass(frozen=True)
class Writing:
    """Writes a text for each sequence; names in ``bad`` fail."""

    folder: Path
    bad: tuple[str, ...] = ()
    error: Exception | None = None

    kind = INGEST_SHARE

    def kept(self, name):
        path = self.folder / name
        return {"text": path.read_text()} if path.is_file() else None

    def make(self, name):
        if name in self.bad:
            raise self.error or DataError(f"{name}: torn")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
        (self.folder / f"{name.replace('/', ' ')}.maker").write_text(str(os.getpid()))
        return Made({"text": f"of {name}"}, f"{name}: written")


@pytest.fixture
def run(tmp_path):
    lines: list[str] = []

    def run(stage=None, names=NAMES, processes=1):
        lines.clear()
        stage = stage or Writing(tmp_path)
        output = tmp_path / "shares/0-of-1.json"
        make_share(stage, names, tmp_path, output, processes, lines.append, asked="for a test")
        return read_manifest(output, INGEST_SHARE)["sequences"]

    run.lines = lines
    return run


@pytest.mark.parametrize("processes", [1, 3])
def test_everything_is_made_and_listed(run, tmp_path, processes):
    entries = run(processes=processes)
    assert entries == {name: {"text": f"of {name}"} for name in NAMES}
    assert list(entries) == sorted(entries)
    assert read_json(tmp_path / "shares/0-of-1.json")["asked"] == "for a test"
    assert run.lines[0] == "[0/3] share 0-of-1: 3 sequences, 3 of them to do"
    assert sorted(line.split("] ")[1] for line in run.lines[1:]) == [
        f"{name}: written" for name in NAMES
    ]
    assert [line.split("]")[0] for line in run.lines[1:]] == ["[1/3", "[2/3", "[3/3"]
    makers = {path.read_text() for path in tmp_path.glob("*.maker")}
    assert len(makers) == processes
    assert (str(os.getpid()) in makers) == (processes == 1)


WRITER = "0123abcd-1-2-0123abcd"
"""In a temporary name: a process of another machine."""


def test_what_holds_is_kept(run, tmp_path):
    run()
    (tmp_path / NAMES[1]).unlink()
    (tmp_path / NAMES[0]).write_text("as it was")
    entries = run()
    assert run.lines == [
        "[0/1] share 0-of-1: 3 sequences, 1 of them to do",
        "[1/1] train/a: written",
    ]
    assert entries[NAMES[0]] == {"text": "as it was"}
    run()
    assert run.lines == ["[0/0] share 0-of-1: 3 sequences, 0 of them to do"]


@pytest.mark.parametrize("processes", [1, 2])
def test_one_that_fails_stops_no_other_and_all_are_told(run, tmp_path, processes):
    with pytest.raises(DataError) as caught:
        run(Writing(tmp_path, bad=("test/c", "train/b.1")), processes=processes)
    assert "2 of 3 sequences could not be done, the others are (2):" in str(caught.value)
    for name in ("test/c", "train/b.1"):
        assert f"  - {name}: torn" in str(caught.value)
    assert (tmp_path / "train/a").read_text() == "of train/a"
    assert not (tmp_path / "shares/0-of-1.json").exists()
    run()
    assert run.lines[0] == "[0/2] share 0-of-1: 3 sequences, 2 of them to do"


def test_an_error_without_the_name_gets_it(run, tmp_path):
    with pytest.raises(DataError, match=r"- train/a: no such folder"):
        run(Writing(tmp_path, bad=("train/a",), error=DataError("no such folder")))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        DiskFullError("store: the disk is full"),
        RunError("a process was ended"),
        OSError(errno.ENOSPC, "No space left on device", "somewhere"),
        ValueError("a defect"),
    ],
    ids=["full", "killed", "system", "defect"],
)
def test_what_concerns_all_stops_at_once(run, tmp_path, processes, error):
    # What is caught keeps all that it passed; children do not wait for its end.
    with pytest.raises(type(error), match=str(error.args[-1])) as caught:
        run(Writing(tmp_path, bad=tuple(NAMES), error=error), processes=processes)
    assert caught.value
    assert multiprocessing.active_children() == []
    assert not any((tmp_path / name).exists() for name in NAMES)
    assert len(run.lines) == 1


def test_what_killed_jobs_left_is_removed_and_nothing_else(run, tmp_path):
    left = [
        *(f"train/.a.{WRITER}.tmp.json", f"train/.b.1.{WRITER}.tmp.zarr/x"),
        f"test/.c.{WRITER}.tmp.json",
        *(
            f"train/.b.1.zarr.{WRITER}.old/x",
            f"shares/.0-of-1.{WRITER}.tmp.json",
        ),
    ]
    others = [
        # Of sequences and shares that another job may write now, and what is no leftover at all.
        *(f"train/.c.{WRITER}.tmp.json", f"train/.b.{WRITER}.tmp.zarr/x"),
        *(
            f"shares/.1-of-2.{WRITER}.tmp.json",
            "train/.a.json",
            f"train/.a.{WRITER}x.tmp.json",
        ),
    ]
    for name in [*left, *others]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    run()
    assert not any((tmp_path / name).exists() for name in left)
    assert not (tmp_path / left[1]).parent.exists()
    assert all((tmp_path / name).exists() for name in others)


def test_another_job_on_the_same_share_is_waited_for(run, tmp_path):
    lock = tmp_path / "shares/0-of-1.lock"
    lock.parent.mkdir()
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    found: list[dict] = []
    thread = threading.Thread(target=lambda: found.append(run(names=[])))
    thread.start()
    deadline = time.monotonic() + 60
    while not is_waited_for(lock):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "waiting for it" in run.lines[0]
    assert not found
    os.close(descriptor)
    thread.join(60)
    assert found == [{}]
