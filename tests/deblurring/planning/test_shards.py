"""Shards of a small data set: plans and real jobs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.data.scenes import film
from tests.deblurring.planning.workflows import plan_of
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data import stages
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import INGEST_SHARD, STORE_SHARD, SURVEY
from vrtspike.data.shards import shard_members, shard_names
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.stages import IngestStage, VoxelizeStage, process_shard
from vrtspike.deblurring.planning.data_plan import DataPlan
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.system.errors import DataError
from vrtspike.workflow.job_resources import ALL_CORES

NAMES = ["test/c", "train/a", "train/b"]
SHARD = "0-of-1"
RESULTS = Path("results/data/raw")
PLACES = {"ingest": INGEST_SHARD, "k2": STORE_SHARD}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Raw data, manifests and stores; read-only."""
    folder = tmp_path_factory.mktemp("prepared")
    for seed, name in enumerate(NAMES):
        write_sequence(folder / "raw" / name, film(seed, 10, 32, 32), frames_per_exposure=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run()
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def work(stage: IngestStage | VoxelizeStage, shard: str = SHARD) -> list[str]:
    """Run a stage on a shard and return the sequences that it processed."""
    lines: list[str] = []
    process_shard(stage, NAMES, stage.folder / "shards" / f"{shard}.json", 1, lines.append)
    print(*lines, sep="\n")
    return sorted(line.split()[1].rstrip(":") for line in lines[1:])


def check(spike_size: tuple[int, int] | None = None) -> list[str]:
    """Check the raw files; return the sequences that were checked."""
    return work(IngestStage(RESULTS / "ingest", RawFolder("raw", spike_size=spike_size)))


def run(bins: int = 2) -> tuple[list[str], list[str]]:
    """Check and build as the workflow does; return the sequences that each processed."""
    options = StoreOptions(bins=bins)
    return check(), work(VoxelizeStage(RESULTS / f"k{bins}", "raw", RESULTS / "ingest", options))


def entries(place: str, key: str) -> dict[str, Any]:
    """One field of each sequence in the file of the shard."""
    sequences = read_json(RESULTS / place / "shards" / f"{SHARD}.json")["sequences"]
    return {name: entry[key] for name, entry in sequences.items()}


def damage() -> dict[str, str]:
    """Damage of checks and stores, by folder."""
    plan = plan_for("raw")
    reports = {
        place: plan.shard_damage(RESULTS.name, place, SHARD, kind) for place, kind in PLACES.items()
    }
    return {place: sequences for place, sequences in reports.items() if sequences}


def plan_for(root: str, keys: dict[str, Any] | None = None, *, is_main: bool = True) -> DataPlan:
    """The plan of a preset with the data of a folder."""
    settings = DeblurringSettings.model_validate({"DATA": {"ROOT": root}})
    schema = workflow_schema().model_validate(keys or {})
    return plan_of(DeblurringConfig(WorkflowConfig(schema, {"p": settings})), is_main=is_main)


def versions() -> dict[str, str]:
    """The version of each sequence's raw files, as Snakemake compares them."""
    lines = plan_for("raw").raw_versions("raw", SHARD)
    return dict(line.removeprefix("raw files of ").split(": ") for line in lines)


def flip_bit(path: Path) -> None:
    """Replace contents by others of the same size and an older date."""
    contents = path.read_bytes()
    path.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    os.utime(path, (1e9, 1e9))


SPIKES = Path("raw/train/a/spike/000001.dat")


def test_only_changed_sequences_get_another_version_and_run_again(folder):
    before, manifests, stores = versions(), entries("ingest", "contents"), entries("k2", "digest")
    assert sorted(before) == NAMES
    for path in (folder / "raw/train/a/blur").iterdir():
        os.utime(path)
    assert versions() == before
    assert run() == ([], [])
    contents = SPIKES.read_bytes()
    flip_bit(SPIKES)
    after = versions()
    assert [name for name in NAMES if after[name] != before[name]] == ["train/a"]
    assert run() == (["train/a"], ["train/a"])
    for old, new in ((manifests, entries("ingest", "contents")), (stores, entries("k2", "digest"))):
        assert [name for name in NAMES if new[name] != old[name]] == ["train/a"]
    assert versions() == after, "the version is what the job has written down"
    SPIKES.write_bytes(contents)
    (folder / "raw/train/b").rename(folder / "raw/train/d")
    assert versions().keys() == {"test/c", "train/a", "train/d"}
    with pytest.raises(DataError, match=r"- .*train/b: no frames at all"):
        run()


def test_versions_before_the_first_check_equal_those_of_the_job(folder):
    shutil.rmtree(folder / "results")
    before = versions()
    assert run() == (NAMES, NAMES)
    assert versions() == before


def test_other_options_and_other_code_run_everything_again(folder, monkeypatch):
    manifests, stores = entries("ingest", "contents"), entries("k2", "digest")
    assert check(spike_size=(8, 32)) == NAMES
    assert entries("ingest", "contents") != manifests
    assert run() == (NAMES, [])
    assert run(bins=4) == ([], NAMES)
    monkeypatch.setattr(stages, "code_digests", lambda path: {path.name: "of other code"})
    assert run() == (NAMES, NAMES)
    # The results are the same, so that nothing after them runs again.
    assert (entries("ingest", "contents"), entries("k2", "digest")) == (manifests, stores)


def test_a_manifest_that_another_number_of_shards_wrote_is_noticed(folder):
    """After a return to fewer shards, their old files must not be trusted."""
    before = versions()
    flip_bit(SPIKES)
    work(IngestStage(RESULTS / "ingest", RawFolder("raw")), "1-of-2")
    assert versions()["train/a"] != before["train/a"]


@pytest.mark.usefixtures("folder")
def test_generated_data_and_jobs_that_measure_nothing_have_no_versions():
    assert plan_for("data/demo").raw_versions("demo", SHARD) == []
    assert plan_for("raw", is_main=False).raw_versions("raw", SHARD) == []


def test_a_plan_does_not_change_while_its_jobs_run(folder):
    """Snakemake evaluates params repeatedly; a shard's file is missing while a job replaces it."""
    os.utime(SPIKES)
    plan = plan_for("raw")
    before = plan.raw_versions("raw", SHARD)
    shutil.rmtree(folder / RESULTS)
    assert plan.raw_versions("raw", SHARD) == before


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize(
    ("place", "pattern", "harm"),
    [
        *(("ingest", "train/a.json", harm) for harm in (Path.unlink, truncate)),
        *(("k2", "train/a.json", harm) for harm in (Path.unlink, truncate)),
        *(("k2", "train/a.zarr/**/c/0/**/0", harm) for harm in (Path.unlink, truncate)),
        ("k2", "train/a.zarr", shutil.rmtree),
    ],
)
def test_damaged_results_are_named_and_made_again(folder, place, pattern, harm):
    assert damage() == {}
    harm(sorted((RESULTS / place).glob(pattern))[-1])
    assert damage() == {place: "results missing or damaged: 1, the first train/a"}
    expected = {"ingest": (["train/a"], []), "k2": ([], ["train/a"])}
    assert run() == expected[place]
    assert damage() == {}


def test_unreadable_files_are_checked_again(folder, capsys):
    """chmod leaves the modification time unchanged."""
    frame = folder / "raw/train/a/blur/000002.png"
    frame.unlink()
    frame.symlink_to(folder / "nowhere.png")
    with pytest.raises(DataError, match="train/a has faults"):
        run()
    (fault,) = read_json(RESULTS / "ingest/train/a.json")["faults"]
    assert f"train/a: 2 frames\n  - {fault}\n" in capsys.readouterr().out
    assert damage()["ingest"] == "results missing or damaged: 1, the first train/a"
    with pytest.raises(DataError, match="train/a has faults"):
        assert run()[0] == []


def test_files_that_change_while_they_are_checked_are_named(folder, monkeypatch):
    before, whole = (RESULTS / "ingest/train/a.json").read_bytes(), stages.ingest_sequence

    def ingest_and_change(*arguments):
        result = whole(*arguments)
        truncate(SPIKES)
        return result

    flip_bit(SPIKES)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "ingest_sequence", ingest_and_change)
        with pytest.raises(DataError, match="train/a: its files changed while they were checked"):
            run()
    assert (RESULTS / "ingest/train/a.json").read_bytes() == before


def write_survey(folder: Path) -> None:
    sequences = [dict(zip(("split", "name"), name.split("/"), strict=True)) for name in NAMES]
    write_json(folder / "survey.json", {"schema": SURVEY.schema, "sequences": sequences})


def shards_of(plan: DataPlan, dataset: str) -> list[str]:
    """The shards of a data set."""
    return [Path(file).stem for file in plan.shard_files(dataset, "ingest")]


def raw_shards(**limits: float) -> list[str]:
    """The shards of the raw data with limits of size."""
    return shards_of(plan_for("raw", {"SHARDS": limits}), "raw")


def test_the_number_of_shards_follows_sequences_and_bytes(folder):
    assert raw_shards() == [SHARD]
    files = plan_for("raw").shard_files("raw", "k8")
    assert files == [f"results/data/raw/k8/shards/{SHARD}.json"]
    few = raw_shards(SEQUENCES=1)
    # Shards without sequences have no jobs.
    assert few == [shard for shard in shard_names(4) if shard_members(shard, NAMES)]
    plan = plan_for("raw", {"SHARDS": {"SEQUENCES": 1}})
    assert sum(plan.shard_threads("raw", shard) for shard in few) == len(NAMES)
    size = sum(file.stat().st_size for file in (folder / "raw").rglob("*") if file.is_file())
    assert raw_shards(GB=size / 1e9) == [SHARD]
    assert all(name.endswith("-of-2") for name in raw_shards(GB=0.96 * size / 1e9))


def test_shards_of_missing_data_follow_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert raw_shards() == [SHARD]
    sources = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": str(n)} for n in range(5)]
    keys = {"SIMULATE": {"SEQUENCES": sources}, "SHARDS": {"SEQUENCES": 2}}
    assert shards_of(plan_for("data/simulated", keys), "simulated") == shard_names(4)
    # As many when some of them are there: the plan must not change with its own jobs.
    write_survey(tmp_path / "results/data/simulated")
    several = shards_of(plan_for("data/simulated", keys), "simulated")
    assert several == [shard for shard in shard_names(4) if shard_members(shard, NAMES)]
    plan = plan_for("data/demo")
    assert shards_of(plan, "demo") == [SHARD]
    assert plan.shard_threads("demo", SHARD) == ALL_CORES


def test_a_job_that_plans_for_itself_takes_the_size_from_the_survey(folder):
    plan = plan_for("raw", is_main=False)
    assert plan.shard_threads("raw", SHARD) == ALL_CORES
    write_survey(folder / "results/data/raw")
    assert plan.shard_threads("raw", SHARD) == 3
    threads = [plan.shard_threads("raw", shard) for shard in shard_names(2)]
    assert sum(number for number in threads if number != ALL_CORES) == 3
