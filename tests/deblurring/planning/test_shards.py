"""Shards of a small data set that was checked and built for real."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.deblurring.data.scenes import film
from tests.deblurring.planning.test_raw_data import Said
from vrtspike.config.workflow import Workflow, workflow_schema
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.shard_jobs import Building, Ingestion, make_shard
from vrtspike.deblurring.data.shards import Shard
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.deblurring.datasets import Dataset, DeblurringWorkflow
from vrtspike.deblurring.planning import RawData, Shards
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import read_json, write_json

NAMES = ["test/c", "train/a", "train/b"]
SHARD = "0-of-1"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Raw data, manifests and stores; not to be changed."""
    folder = tmp_path_factory.mktemp("prepared")
    for seed, name in enumerate(NAMES):
        write_sequence(folder / "raw" / name, film(seed, 10, 32, 32), frames_per_exposure=3)
    run(folder)
    return folder


def run(folder: Path) -> None:
    """Check and build as the workflow would."""
    results = folder / "results/data/raw"
    for stage, place in (
        (Ingestion(str(folder / "raw"), results / "ingest", "blur", "auto"), "ingest"),
        (Building(str(folder / "raw"), results / "k2", results / "ingest", 2), "k2"),
    ):
        output = results / place / "shards" / f"{SHARD}.json"
        make_shard(stage, NAMES, output, 1, lambda line: None)


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(root: str = "raw", measures: bool = True, **keys) -> tuple[Shards, Dataset]:
    settings = Settings.model_validate({"DATA": {"ROOT": root}})
    workflow = DeblurringWorkflow(Workflow(workflow_schema().model_validate(keys), {"p": settings}))
    raw_data = RawData(workflow, lambda: True, Said(), measures)
    return Shards(workflow, raw_data), workflow.dataset("p")


def versions(**options) -> dict[str, str]:
    """The version of each sequence's raw files, as Snakemake compares them."""
    shards, dataset = asked(**options)
    lines = shards.raw_versions(dataset, SHARD)
    return dict(line.removeprefix("raw files of ").split(": ") for line in lines)


def damage() -> tuple[str, str]:
    """What is told of checks and of stores."""
    shards, dataset = asked()
    return shards.damaged_checks(dataset, SHARD), shards.damaged_stores(dataset, 2, SHARD)


def changed_bit(path: Path) -> None:
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    os.utime(path, (1e9, 1e9))


def test_versions_change_with_contents_and_not_with_dates(folder):
    before = versions()
    assert sorted(before) == sorted(NAMES)
    for path in (folder / "raw/train/a/blur").iterdir():
        os.utime(path)
    assert versions() == before
    path = folder / "raw/train/a/spike/000001.dat"
    contents = path.read_bytes()
    changed_bit(path)
    (folder / "raw/train/b").rename(folder / "raw/train/d")
    after = versions()
    assert after.keys() == {"test/c", "train/a", "train/d"}
    assert after["test/c"] == before["test/c"]
    assert after["train/a"] != before["train/a"]
    path.write_bytes(contents)
    assert versions()["train/a"] == before["train/a"]


@pytest.mark.parametrize("is_first", [False, True])
def test_versions_are_those_that_the_job_writes_down(folder, is_first):
    """Before the first check dates and sizes count."""
    if is_first:
        shutil.rmtree(folder / "results")
    changed_bit(folder / "raw/train/a/spike/000001.dat")
    before = versions()
    run(folder)
    assert versions() == before


def test_a_manifest_that_another_number_of_shards_wrote_is_noticed(folder):
    """Going back to fewer shards finds their old files: these must not be believed."""
    before = versions()
    changed_bit(folder / "raw/train/a/spike/000001.dat")
    results = folder / "results/data/raw/ingest"
    stage = Ingestion("raw", results, "blur", "auto")
    make_shard(stage, NAMES, results / "shards/1-of-2.json", 1, lambda line: None)
    assert versions()["train/a"] != before["train/a"]


def test_generated_data_and_jobs_that_measure_nothing_have_no_versions(folder):
    assert versions(root="data/demo") == {}
    assert versions(measures=False) == {}


def test_a_plan_stays_as_it_is_while_its_jobs_run(folder):
    """Snakemake asks again and again; the file of a shard is away while a job replaces it."""
    os.utime(folder / "raw/train/a/spike/000001.dat")
    shards, dataset = asked()
    before = shards.raw_versions(dataset, SHARD)
    shutil.rmtree(folder / "results/data/raw")
    assert shards.raw_versions(dataset, SHARD) == before


@pytest.mark.parametrize(
    ("place", "pattern", "is_cut"),
    [
        *(("ingest", "train/a.json", is_cut) for is_cut in (False, True)),
        *(("k2", "train/a.json", is_cut) for is_cut in (False, True)),
        *(("k2", "train/a.zarr/**/c/**/0", is_cut) for is_cut in (False, True)),
        ("k2", "train/a.zarr", False),
    ],
)
def test_damaged_manifests_and_stores_are_named(folder, place, pattern, is_cut):
    assert damage() == ("", "")
    found = sorted((folder / "results/data/raw" / place).glob(pattern))
    path = next((path for path in found if path.is_file()), found[0])
    if is_cut:
        path.write_bytes(path.read_bytes()[:-2])
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    told = "s missing or damaged: 1, the first train/a"
    expected = {"ingest": (f"manifest{told}", ""), "k2": ("", f"store{told}")}
    assert damage() == expected[place]


def test_files_that_could_not_be_read_are_looked_at_again(folder):
    """Permissions have no date."""
    path = folder / f"results/data/raw/ingest/shards/{SHARD}.json"
    contents = read_json(path)
    contents["sequences"]["train/a"]["version"] = ""
    write_json(path, contents)
    assert damage()[0] == "manifests missing or damaged: 1, the first train/a"


def write_survey(folder: Path) -> None:
    found = [dict(zip(("split", "name"), name.split("/"), strict=True)) for name in NAMES]
    known = {**dict.fromkeys(SURVEY.keys), "schema": SURVEY.schema, "sequences": found}
    write_json(folder / "survey.json", known)


def names(**keys) -> list[str]:
    shards, dataset = asked(**keys)
    return shards.names(dataset)


def test_the_number_of_shards_follows_sequences_and_bytes(folder):
    assert names() == [SHARD]
    few = names(SHARDS={"SEQUENCES": 1})
    # Shards without sequences are no jobs.
    assert few == sorted({str(Shard(n, 4)) for n in range(4) if Shard(n, 4).of(NAMES)})
    shards, dataset = asked(SHARDS={"SEQUENCES": 1})
    assert sum(shards.size(dataset, shard) or 0 for shard in few) == len(NAMES)
    size = sum(file.stat().st_size for file in (folder / "raw").rglob("*") if file.is_file())
    assert names(SHARDS={"GB": size / 1e9}) == [SHARD]
    assert all(name.endswith("-of-2") for name in names(SHARDS={"GB": 0.96 * size / 1e9}))


def test_of_data_that_are_not_there_yet_only_the_configuration_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names() == [SHARD]
    sources = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": str(n)} for n in range(5)]
    simulated = {"root": "data/simulated", "SIMULATE": {"SEQUENCES": sources}}
    assert names(**simulated, SHARDS={"SEQUENCES": 2}) == [str(Shard(n, 4)) for n in range(4)]
    # As many when some of them are there: the plan must not change with its own jobs.
    write_survey(tmp_path / "results/data/simulated")
    several = names(**simulated, SHARDS={"SEQUENCES": 2})
    assert several == [str(Shard(n, 4)) for n in range(4) if Shard(n, 4).of(NAMES)]
    shards, dataset = asked(root="data/demo")
    assert shards.names(dataset) == [SHARD]
    assert shards.size(dataset, SHARD) is None


def test_a_job_that_plans_for_itself_takes_the_size_from_the_survey(folder):
    shards, dataset = asked(measures=False)
    assert shards.size(dataset, SHARD) is None
    write_survey(folder / "results/data/raw")
    assert shards.size(dataset, SHARD) == 3
    sizes = [shards.size(dataset, f"{n}-of-2") or 0 for n in range(2)]
    assert sum(sizes) == 3
