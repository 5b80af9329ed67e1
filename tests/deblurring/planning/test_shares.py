"""Shares of a small data set that was checked and built for real."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.deblurring.data.scenes import film
from vrtspike.config.workflow import Workflow, workflow_schema
from vrtspike.deblurring.data.bundles import make_share
from vrtspike.deblurring.data.gate.ingest_share import Ingestion
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.shares import Share
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.deblurring.data.store.build_share import Building
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring.planning.shares import Shares, Standing
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Videos
from vrtspike.files import read_json, write_json

NAMES = ["test/c", "train/a", "train/b"]
SHARE = "0-of-1"


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
        (Building(str(folder / "raw"), results / "ingest", 2, results / "k2"), "k2"),
    ):
        output = results / place / "shares" / f"{SHARE}.json"
        make_share(stage, NAMES, results / place, output, 1, lambda line: None)


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(root: str = "raw", compares: bool = True, **workflow) -> tuple[Shares, list[str]]:
    settings = Settings.model_validate({"DATA": {"ROOT": root}})
    plan = Videos(Workflow(workflow_schema().model_validate(workflow), {"p": settings}))
    notices: list[str] = []
    raw_data = RawData(plan, lambda: True, notices.append)
    return Shares(plan, raw_data, compares, notices.append), notices


def dataset(shares: Shares):
    return shares._videos.dataset("p")


def ingested(asked_for: str = "", **options) -> Standing:
    shares = asked(**options)[0]
    return shares.ingest_standing(dataset(shares), SHARE, asked_for)


def stored(asked_for: str = "", **options) -> Standing:
    shares = asked(**options)[0]
    return shares.store_standing(dataset(shares), 2, SHARE, asked_for)


def test_nothing_is_due_where_nothing_changed(folder):
    for path in (folder / "raw/train/a/blur").iterdir():
        os.utime(path)
    assert ingested() == Standing()
    assert stored() == Standing()


def test_changed_new_and_removed_sequences_are_named(folder):
    (path,) = (folder / "raw/train/a/spike").glob("000001.dat")
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    os.utime(path, (1e9, 1e9))
    (folder / "raw/train/b").rename(folder / "raw/train/d")
    assert ingested() == Standing(
        due=True, reason="new: train/d, removed: train/b, raw files of train/a changed"
    )


def test_contents_that_came_back_are_no_change(folder):
    path = folder / "raw/train/a/spike/000001.dat"
    contents = path.read_bytes()
    path.write_bytes(contents[:-1])
    assert ingested().reason == "raw files of train/a changed"
    path.write_bytes(contents)
    assert ingested() == Standing()


@pytest.mark.parametrize("cut", [False, True])
def test_damaged_manifests_are_named(folder, cut):
    for place, standing, told in (
        ("ingest", ingested, "manifest of train/a missing or damaged"),
        ("k2", stored, "store's manifest of train/a missing or damaged"),
    ):
        path = folder / "results/data/raw" / place / "train/a.json"
        contents = path.read_bytes()
        if cut:
            path.write_bytes(contents[:-2])
        else:
            path.unlink()
        assert standing() == Standing(due=True, reason=told)
        shares, notices = asked()
        shares.ingest_standing(dataset(shares), SHARE, "")
        shares.store_standing(dataset(shares), 2, SHARE, "")
        assert notices == [f"{told}: made again"]
        path.write_bytes(contents)


@pytest.mark.parametrize("damage", ["store", "file", "shorter"])
def test_damaged_stores_are_named_and_told(folder, damage):
    store = folder / "results/data/raw/k2/train/a.zarr"
    chunk = next(file for file in sorted(store.rglob("c/**/0")) if file.is_file())
    if damage == "store":
        shutil.rmtree(store)
    elif damage == "file":
        chunk.unlink()
    else:
        chunk.write_bytes(chunk.read_bytes()[:-1])
    shares, notices = asked()
    told = "store of train/a missing or damaged"
    assert shares.store_standing(dataset(shares), 2, SHARE, "") == Standing(due=True, reason=told)
    assert notices == [f"{told}: made again"]
    assert ingested() == Standing()


def test_of_many_sequences_some_are_named(folder):
    for name in ("d", "e", "f"):
        shutil.copytree(folder / "raw/train/a", folder / f"raw/train/{name}")
    (folder / "raw/train/b").rename(folder / "raw/train/g")
    told = "new: train/d, train/e, train/f and 1 more, removed: train/b"
    assert ingested().reason == told


def test_a_file_of_a_share_that_is_damaged_or_missing_is_made(folder):
    for place, standing in (("ingest", ingested), ("k2", stored)):
        path = f"results/data/raw/{place}/shares/{SHARE}.json"
        contents = Path(path).read_bytes()
        Path(path).write_bytes(contents[:50])
        assert standing() == Standing(due=True, reason=f"{path} is damaged")
        Path(path).unlink()
        assert standing() == Standing(due=True)
        Path(path).write_bytes(contents)
    Path("results/data/raw/k2/dataset.json").touch()
    Path(path).unlink()
    assert stored() == Standing(due=True, reason=f"{path} is missing")
    assert stored(compares=False) == Standing()
    Path(path).write_bytes(contents)
    Path(f"results/data/raw/ingest/shares/{SHARE}.json").unlink()
    assert stored() == Standing(due=True)


def test_what_cannot_be_compared_is_looked_at_by_the_job(folder):
    manifest = folder / "results/data/raw/ingest/train/a.json"
    manifest.write_bytes(b"?" * manifest.stat().st_size)
    assert ingested() == Standing()  # nobody reads it while sizes and dates are the same
    os.utime(folder / "raw/train/a/spike/000001.dat", (1e9, 1e9))
    assert ingested() == Standing(due=True, reason="raw files of train/a changed")
    shutil.rmtree(folder / "raw")
    assert ingested() == Standing(due=True)


def test_a_plan_stays_as_it_is_while_its_jobs_run(folder):
    """Snakemake asks again and again; a store is away while a job replaces it."""
    shares, notices = asked()
    before = shares.ingest_standing(dataset(shares), SHARE, "")
    stores = shares.store_standing(dataset(shares), 2, SHARE, "")
    shutil.rmtree(folder / "results/data/raw")
    assert shares.ingest_standing(dataset(shares), SHARE, "") == before == Standing()
    assert shares.store_standing(dataset(shares), 2, SHARE, "") == stores == Standing()
    assert notices == []


def test_other_code_and_other_options_are_due_and_told_by_snakemake(folder):
    assert ingested(asked_for="other") == Standing(due=True)
    assert stored(asked_for="other") == Standing(due=True)


def test_stores_of_what_was_checked_again_with_another_result_are_due(folder):
    path = folder / f"results/data/raw/ingest/shares/{SHARE}.json"
    before = read_json(path)
    entry = before["sequences"]["train/a"]
    changes = (
        {"train/a": {**entry, "contents": "other"}},
        {"train/new": entry},
    )
    for change in changes:
        write_json(path, {**before, "sequences": {**before["sequences"], **change}})
        assert stored() == Standing(due=True)
    write_json(path, {**before, "sequences": {"train/a": entry}})
    assert stored() == Standing(due=True)


def test_a_manifest_that_another_number_of_shares_wrote_is_noticed(folder):
    """Going back to fewer shares finds their old files: these must not be believed."""
    path = folder / "raw/train/a/spike/000001.dat"
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    results = folder / "results/data/raw/ingest"
    stage = Ingestion("raw", results, "blur", "auto")
    make_share(stage, NAMES, results, results / "shares/1-of-2.json", 1, lambda line: None)
    assert ingested().reason == "raw files of train/a changed"


def test_a_job_that_plans_for_itself_compares_nothing(folder):
    shutil.rmtree(folder / "results/data/raw/k2")
    shutil.rmtree(folder / "raw")
    assert ingested(compares=False) == Standing()
    assert stored(compares=False) == Standing()


def names(**workflow) -> list[str]:
    shares, _ = asked(**workflow)
    return shares.names(dataset(shares))


def test_the_number_of_shares_follows_sequences_and_bytes(folder):
    assert names() == [SHARE]
    few = names(SHARES={"SEQUENCES": 1})
    assert few == sorted({str(Share(n, 4)) for n in range(4) if Share(n, 4).of(NAMES)})
    size = sum(file.stat().st_size for file in (folder / "raw").rglob("*") if file.is_file())
    assert names(SHARES={"GB": size / 1e9}) == [SHARE]
    assert all(name.endswith("-of-2") for name in names(SHARES={"GB": 0.96 * size / 1e9}))


def test_shares_without_sequences_are_no_jobs(folder):
    found = names(SHARES={"SEQUENCES": 1})
    assert len(found) < 4
    shares, _ = asked(SHARES={"SEQUENCES": 1})
    assert sum(shares.size(dataset(shares), share) or 0 for share in found) == len(NAMES)


def test_of_data_that_are_not_there_yet_only_the_configuration_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert names() == [SHARE]
    sources = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": str(n)} for n in range(5)]
    simulated = {"root": "data/simulated", "SIMULATE": {"SEQUENCES": sources}}
    assert names(**simulated, SHARES={"SEQUENCES": 2}) == [str(Share(n, 4)) for n in range(4)]
    # As many when some of them are there: the plan must not change with its own jobs.
    found = [dict(zip(("split", "name"), name.split("/"), strict=True)) for name in NAMES]
    known = {**dict.fromkeys(SURVEY.keys), "schema": SURVEY.schema, "sequences": found}
    write_json(tmp_path / "results/data/simulated/survey.json", known)
    several = names(**simulated, SHARES={"SEQUENCES": 2})
    assert several == [str(Share(n, 4)) for n in range(4) if Share(n, 4).of(NAMES)]
    shares, _ = asked(root="data/demo")
    assert shares.names(dataset(shares)) == [SHARE]
    assert shares.size(dataset(shares), SHARE) is None


def test_a_job_that_plans_for_itself_takes_the_size_from_the_survey(folder):
    shares, _ = asked(compares=False)
    assert shares.size(dataset(shares), SHARE) is None
    found = [dict(zip(("split", "name"), name.split("/"), strict=True)) for name in NAMES]
    known = {**dict.fromkeys(SURVEY.keys), "schema": SURVEY.schema, "sequences": found}
    write_json(folder / "results/data/raw/survey.json", known)
    assert shares.size(dataset(shares), SHARE) == 3
    sizes = [shares.size(dataset(shares), f"{n}-of-2") or 0 for n in range(2)]
    assert sum(sizes) == 3
