"""Sequences worked through, by a stage made for these tests.

Those of the workflow: tests/deblurring/planning/test_shards.py.
"""

from __future__ import annotations

import dataclasses
import errno
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.concurrency import wait_until
from vrtspike.data import stages
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import INGEST_SHARD
from vrtspike.data.stages import IngestStage, SequenceStage, VoxelizeStage, process_shard
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import json_digest, write_json
from vrtspike.io.manifests import read_manifest
from vrtspike.staleness.source_digests import code_digests
from vrtspike.system.errors import DataError, RunError

NAMES = ["test/c", "train/a", "train/b.1"]


@dataclass(frozen=True)
class Writing(SequenceStage):
    """Writes a text for each sequence; names in ``bad`` fail."""

    bad: tuple[str, ...] = ()
    error: Exception | None = None

    kind = manifest_kind = INGEST_SHARD

    def result_options(self):
        return {}

    def inputs(self, name):
        return {"text": f"of {name}"}

    def entry(self, name, manifest):
        return {"text": manifest["text"], "bytes": self.manifest(name).stat().st_size}

    def make(self, name):
        if name in self.bad:
            raise self.error or DataError(f"{name}: torn" if name == "test/c" else "torn")
        manifest = {"schema": self.kind.schema, "frames": [], **self.inputs(name)}
        write_json(self.manifest(name), manifest)
        (self.folder / f"{name.replace('/', ' ')}.maker").write_text(str(os.getpid()))
        return manifest


@pytest.fixture
def run(tmp_path):
    lines: list[str] = []

    def run(stage=None, names=NAMES, processes=1):
        lines.clear()
        stage = stage or Writing(tmp_path)
        output = tmp_path / "shards/0-of-1.json"
        process_shard(stage, names, output, processes, lines.append)
        return read_manifest(output, INGEST_SHARD)["sequences"]

    run.lines = lines
    return run


@pytest.mark.parametrize("processes", [1, 3])
def test_everything_is_made_and_listed(run, tmp_path, processes):
    entries = run(processes=processes)
    assert [entry["text"] for entry in entries.values()] == [f"of {name}" for name in NAMES]
    assert list(entries) == sorted(entries)
    assert run.lines[0] == "[0/3] shard 0-of-1: 3 sequences, 3 of them to do"
    assert sorted(line.split("] ")[1] for line in run.lines[1:]) == [
        f"{name}: 0 frames" for name in NAMES
    ]
    assert [line.split("]")[0] for line in run.lines[1:]] == ["[1/3", "[2/3", "[3/3"]
    makers = {path.read_text() for path in tmp_path.glob("*.maker")}
    assert len(makers) <= processes  # one that is quick may do the work of others
    assert str(os.getpid()) not in makers


@pytest.mark.parametrize("processes", [1, 2])
def test_one_that_fails_stops_no_other_and_all_are_told(run, tmp_path, processes):
    with pytest.raises(DataError) as caught:
        run(Writing(tmp_path, bad=("test/c", "train/b.1")), processes=processes)
    assert "2 of 3 sequences could not be done, the others are (2):" in str(caught.value)
    for name in ("test/c", "train/b.1"):
        assert f"  - {name}: torn" in str(caught.value)  # whether the error names it or not
    assert (tmp_path / "train/a.json").exists()
    assert not (tmp_path / "shards/0-of-1.json").exists()
    run()
    assert run.lines[0] == "[0/2] shard 0-of-1: 3 sequences, 2 of them to do"


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        RunError("a process was ended"),
        OSError(errno.ENOSPC, "No space left on device", "somewhere"),
        ValueError("a defect"),
    ],
    ids=["killed", "full", "defect"],
)
def test_what_concerns_all_stops_at_once(run, tmp_path, processes, error):
    # What is caught keeps all that it passed; children do not wait for its end.
    with pytest.raises(type(error), match=str(error.args[-1])) as caught:
        run(Writing(tmp_path, bad=tuple(NAMES), error=error), processes=processes)
    assert caught.value
    wait_until(lambda: not multiprocessing.active_children())
    assert not any((tmp_path / f"{name}.json").exists() for name in NAMES)
    assert len(run.lines) == 1


def test_a_recipe_has_the_options_that_change_results_and_no_places(tmp_path):
    """Its composition is kept, as results of earlier versions would be made again."""
    building = VoxelizeStage(tmp_path, "root", tmp_path / "in", StoreOptions(bins=8, context=4))
    ingestion = IngestStage(tmp_path, RawFolder("root", spike_root="spikes", spike_size=(250, 416)))
    options = {
        building: {"bins": 8, "context": 4},
        ingestion: {
            "blur_dir": "blur",
            "layout": "auto",
            "spike_size": [250, 416],
            "spike_root": "spikes",
        },
    }
    for stage, expected in options.items():
        code = code_digests(Path(stages.__file__).parents[1] / stage.module)
        lines = [f"{file} {digest}" for file, digest in code.items()]
        assert stage.recipe == json_digest({"code": lines, **expected})
    moved_raw = dataclasses.replace(ingestion.raw_folder, root="elsewhere")
    assert dataclasses.replace(ingestion, raw_folder=moved_raw).recipe == ingestion.recipe
    assert dataclasses.replace(building, root="elsewhere").recipe == building.recipe
