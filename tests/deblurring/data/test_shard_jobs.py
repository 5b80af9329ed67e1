"""Sequences worked through: by a stage made for these tests, by the check, by the building."""

from __future__ import annotations

import errno
import fcntl
import itertools
import multiprocessing
import os
import shutil
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.concurrency import is_waited_for, wait_until
from tests.deblurring.data.conftest import SEQUENCES
from vrtspike.deblurring.data import shard_jobs
from vrtspike.deblurring.data.manifests import INGEST_SHARD, INGESTED, STORE_SHARD
from vrtspike.deblurring.data.shard_jobs import (
    Building,
    Ingestion,
    SequenceStage,
    make_shard,
)
from vrtspike.errors import DataError, DiskFullError, RunError
from vrtspike.io.files import read_json, write_json
from vrtspike.io.manifests import read_manifest

NAME = SEQUENCES[0]
NAMES = ["test/c", "train/a", "train/b.1"]


@dataclass(frozen=True)
class Writing(SequenceStage):
    """Writes a text for each sequence; names in ``bad`` fail."""

    bad: tuple[str, ...] = ()
    error: Exception | None = None

    kind = INGEST_SHARD

    def existing_entry(self, name):
        path = self.folder / name
        return {"text": path.read_text()} if path.is_file() else None

    def make(self, name):
        if name in self.bad:
            raise self.error or DataError(f"{name}: torn" if name == "test/c" else "torn")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
        (self.folder / f"{name.replace('/', ' ')}.maker").write_text(str(os.getpid()))
        return {"text": f"of {name}"}, f"{name}: written"


@pytest.fixture
def run(tmp_path):
    lines: list[str] = []

    def run(stage=None, names=NAMES, processes=1):
        lines.clear()
        stage = stage or Writing("", tmp_path)
        output = tmp_path / "shards/0-of-1.json"
        make_shard(stage, names, output, processes, lines.append)
        return read_manifest(output, INGEST_SHARD)["sequences"]

    run.lines = lines
    return run


@pytest.mark.parametrize("processes", [1, 3])
def test_everything_is_made_and_listed(run, tmp_path, processes):
    entries = run(processes=processes)
    assert entries == {name: {"text": f"of {name}"} for name in NAMES}
    assert list(entries) == sorted(entries)
    assert run.lines[0] == "[0/3] shard 0-of-1: 3 sequences, 3 of them to do"
    assert sorted(line.split("] ")[1] for line in run.lines[1:]) == [
        f"{name}: written" for name in NAMES
    ]
    assert [line.split("]")[0] for line in run.lines[1:]] == ["[1/3", "[2/3", "[3/3"]
    makers = {path.read_text() for path in tmp_path.glob("*.maker")}
    assert len(makers) <= processes  # one that is quick may do the work of others
    assert str(os.getpid()) not in makers


@pytest.mark.parametrize("processes", [1, 2])
def test_one_that_fails_stops_no_other_and_all_are_told(run, tmp_path, processes):
    with pytest.raises(DataError) as caught:
        run(Writing("", tmp_path, bad=("test/c", "train/b.1")), processes=processes)
    assert "2 of 3 sequences could not be done, the others are (2):" in str(caught.value)
    for name in ("test/c", "train/b.1"):
        assert f"  - {name}: torn" in str(caught.value)  # whether the error names it or not
    assert (tmp_path / "train/a").read_text() == "of train/a"
    assert not (tmp_path / "shards/0-of-1.json").exists()
    run()
    assert run.lines[0] == "[0/2] shard 0-of-1: 3 sequences, 2 of them to do"


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
        run(Writing("", tmp_path, bad=tuple(NAMES), error=error), processes=processes)
    assert caught.value
    wait_until(lambda: not multiprocessing.active_children())
    assert not any((tmp_path / name).exists() for name in NAMES)
    assert len(run.lines) == 1


def test_another_job_on_the_same_shard_is_waited_for(run, tmp_path):
    lock = tmp_path / "shards/0-of-1.lock"
    lock.parent.mkdir()
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    found: list[dict] = []
    thread = threading.Thread(target=lambda: found.append(run(names=[])))
    thread.start()
    wait_until(lambda: is_waited_for(lock))
    assert "waiting for it" in run.lines[0]
    assert not found
    os.close(descriptor)
    thread.join(60)
    assert found == [{}]


# --- The check of raw files, and the building of stores -------------------------------------------


def work(stage, kind):
    """Names of what was made, and the shard's file."""
    lines: list[str] = []
    output = stage.folder / "shards/0-of-1.json"
    make_shard(stage, sorted(SEQUENCES), output, 1, lines.append)
    made = sorted(line.split()[1].rstrip(":") for line in lines[1:])
    return made, read_manifest(output, kind)["sequences"]


def check(folder, **options):
    stage = Ingestion(str(folder / "dataset"), folder / "ingest", "blur", "auto", **options)
    return work(stage, INGEST_SHARD)


def build(folder, bins=8):
    check(folder)
    stores = folder / f"k{bins}"
    stage = Building(str(folder / "dataset"), stores, folder / "ingest", bins)
    return work(stage, STORE_SHARD)


@pytest.fixture(scope="module")
def made(pristine, tmp_path_factory):
    """All three sequences, checked and built; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(pristine, folder / "dataset")
    build(folder)
    return folder


@pytest.fixture
def dataset(made, tmp_path):
    """A copy of the data set, beside copies of what was made of it."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True) / "dataset"


@pytest.fixture
def checked(dataset, tmp_path):
    """Checks the sequences again."""
    return partial(check, tmp_path)


@pytest.fixture
def built(dataset, tmp_path):
    """Checks them and builds their stores again."""
    return partial(build, tmp_path)


def change(path):
    """Other contents of the same size, older than what they replace."""
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    os.utime(path, (1e9, 1e9))


def test_the_files_of_shards_say_what_manifests_and_stores_are(built, checked, tmp_path):
    (made, entries), (now, stores) = checked(), built()
    assert made == now == []
    assert list(entries) == list(stores) == sorted(SEQUENCES)
    path = tmp_path / "ingest" / f"{NAME}.json"
    assert entries[NAME]["bytes"] == len(path.read_bytes())
    assert entries[NAME]["version"] == read_json(path)["source_version"]
    path, store = tmp_path / "k8" / f"{NAME}.json", tmp_path / "k8" / f"{NAME}.zarr"
    files = [file for file in store.rglob("*") if file.is_file()]
    assert stores[NAME] == {
        "digest": read_json(path)["digest"],
        "ingested": entries[NAME]["contents"],
        "bytes": len(path.read_bytes()),
        "store": [len(files), sum(len(file.read_bytes()) for file in files)],
    }


def test_only_what_changed_is_done_again(built, checked, dataset):
    (_, before), (_, stores) = checked(), built()
    path = dataset / NAME / "spike/000002.dat"
    change(path)
    made, after = checked()
    assert made == [NAME]
    assert after[NAME]["contents"] != before[NAME]["contents"]
    assert {**after, NAME: 0} == {**before, NAME: 0}
    made, now = built()
    assert made == [NAME]
    assert now[NAME]["digest"] != stores[NAME]["digest"]
    os.utime(path)
    assert checked()[0] == built()[0] == []


def test_other_options_and_other_code_do_everything_again(built, checked, monkeypatch):
    (_, before), (_, stores) = checked(), built()
    assert checked(spike_size=(64, 48))[1][NAME]["contents"] != before[NAME]["contents"]
    assert checked(spike_size=(48, 64))[0] == sorted(SEQUENCES)
    made, after = checked()
    assert (made, after) == (sorted(SEQUENCES), before)
    made, other = built(bins=4)
    assert made == sorted(SEQUENCES)
    assert other[NAME]["digest"] != stores[NAME]["digest"]
    monkeypatch.setattr(shard_jobs, "code_digests", lambda path: {path.name: "of other code"})
    # The same is found: of what follows nothing else has to be done again.
    assert {n: e["contents"] for n, e in checked()[1].items()} == {
        n: e["contents"] for n, e in before.items()
    }
    made, now = built()
    assert made == sorted(SEQUENCES)
    assert {n: e["digest"] for n, e in now.items()} == {n: e["digest"] for n, e in stores.items()}


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def without_recipe(path):
    write_json(path, {k: v for k, v in read_json(path).items() if k != "recipe"})


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        *itertools.product(
            (f"ingest/{NAME}.json", f"k8/{NAME}.json"), (Path.unlink, cut, without_recipe)
        ),
        *((f"k8/{NAME}.zarr/**/c/0/**/0", damage) for damage in (Path.unlink, cut)),
        (f"k8/{NAME}.zarr", shutil.rmtree),
    ],
)
def test_what_is_damaged_is_made_again(built, checked, tmp_path, pattern, damage):
    files = {path: path.stat().st_size for path in tmp_path.glob("*/t*/**/*") if path.is_file()}
    place = next(p for p in sorted(tmp_path.glob(pattern)) if p in files or p.suffix == ".zarr")
    damage(place)
    assert (checked if pattern.startswith("ingest") else built)()[0] == [NAME]
    assert all(path.stat().st_size == size for path, size in files.items())


def test_a_file_that_could_not_be_read_is_no_known_version(checked, dataset, tmp_path):
    link = dataset / NAME / "blur/000002.png"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere.png")
    made, entries = checked()
    assert made == [NAME]
    assert read_manifest(tmp_path / "ingest" / f"{NAME}.json", INGESTED)["faults"]
    assert entries[NAME]["version"] == ""
    assert entries[SEQUENCES[1]]["version"] != ""
    assert checked()[0] == [NAME]


def test_files_that_change_while_they_are_checked_are_named(
    checked, dataset, tmp_path, monkeypatch
):
    path, manifest = dataset / NAME / "spike/000002.dat", tmp_path / "ingest" / f"{NAME}.json"
    before = manifest.read_bytes()
    whole = shard_jobs.ingest_sequence

    def ingest_and_change(*arguments, **options):
        found = whole(*arguments, **options)
        path.write_bytes(path.read_bytes()[:-2])
        return found

    change(path)
    monkeypatch.setattr(shard_jobs, "ingest_sequence", ingest_and_change)
    with pytest.raises(DataError, match=f"{NAME}: its files changed while they were checked"):
        checked()
    assert manifest.read_bytes() == before
    monkeypatch.undo()
    assert checked()[0] == [NAME]
    (dataset / NAME).rename(dataset / "elsewhere")
    with pytest.raises(DataError, match=f"- .*{NAME}: no such sequence folder"):
        checked()


def test_the_recipe_depends_on_every_option():
    checks = [
        *[
            ("blur", "auto"),
            ("blur_gamma", "auto"),
            ("blur", "kair"),
            ("blur", "auto", None, "spikes"),
        ],
        *[("blur", "auto", (250, 400)), ("blur", "auto", (400, 250))],
    ]
    recipes = {Ingestion("", Path(), *check).recipe for check in checks}
    builds = [(8, 0), (8, 4), (4, 0)]
    recipes |= {Building("", Path(), Path(), bins, context).recipe for bins, context in builds}
    assert len(recipes) == len(checks) + len(builds)
