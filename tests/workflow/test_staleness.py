"""Stages that a change makes stale: those of ``vrtspike why``, and those of a real run.

Which sequences of a stage are done again is tested by tests/deblurring/planning/test_shards.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workflow.project import CONFIG, Project, make_sequence
from tests.workflow.staleness import copied, outcome

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.endurance,
]

NAME, OTHER = "train/GOPR0001_11_00", "train/GOPR0002_11_00"
SPIKES = f"data/tiny/{NAME}/spike/000002.dat"
SUMMARY = "results/evaluate/tiny/summary.json"
STORE = f"results/data/tiny/k8/{NAME}.zarr"

OPEN = "decided when the data are made again"
AGAIN = "what it reads is made again"
MISSED = "no result yet"

Change = Callable[[Project], None]


@pytest.fixture
def project(finished_once: Project, tmp_path: Path) -> Project:
    """A finished project of this test's own."""
    return copied(finished_once, tmp_path / "project")


def edit(path: str, old: str, new: str) -> Change:
    """Replace a text in a file."""
    return lambda project: project.replace(path, old, new)


def configured(lines: str) -> Change:
    """Append to the configuration."""
    return lambda project: project.write("config/config.yaml", CONFIG + lines) and None


def deleted(*paths: str) -> Change:
    """Remove files or folders, as after a job that failed, or a user who needs space."""

    def change(project: Project) -> None:
        for path in (project.folder / name for name in paths):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def cut(*paths: str) -> Change:
    """Manifests lose their second halves."""

    def change(project: Project) -> None:
        for path in (project.folder / name for name in paths):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return change


def other_content_with_an_older_date(project: Project) -> None:
    """As many bytes as before."""
    path = project.folder / SPIKES
    contents = path.read_bytes()
    path.write_bytes(contents[:100] + bytes([contents[100] ^ 1]) + contents[101:])
    os.utime(path, (1e9, 1e9))


def sequence_added(project: Project) -> None:
    make_sequence(project.folder / "data/tiny", "train", 2)


def store_cut(project: Project) -> None:
    """The largest file of a store loses its end."""
    files = (path for path in (project.folder / STORE).rglob("*") if path.is_file())
    largest = max(files, key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-5])


def edited_summary(project: Project) -> None:
    project.write(SUMMARY, '{"schema": 99}')


def results_moved(project: Project) -> None:
    (project.folder / "results").rename(project.folder / "elsewhere")
    configured("RESULTS: elsewhere\n")(project)


def both(*changes: Change) -> Change:
    """Several changes."""

    def change(project: Project) -> None:
        for one in changes:
            one(project)

    return change


@dataclass(frozen=True)
class Case:
    """A change and what it costs.

    Attributes:
        change: made to a finished project.
        targets: what is asked for.
        reasons: stages that are named before a run, each with its reason; None: not looked at.
        ran: stages that then run; None: only planned.
        runs: how many trainings begin; other jobs of them publish a run that is there.
        core: whether CI does the run, too.
    """

    change: Change
    targets: tuple[str, ...] = ("all",)
    reasons: dict[str, str] | None = None
    ran: set[str] | None = None
    runs: int = 0
    core: bool = False


# Snakemake's metadata is removed, as users do to get rid of a lock.
FORGOTTEN = deleted(".snakemake")
SHOWN = {"compare", "page", "report"}
STORES = {"voxelize tiny", "statistics tiny"}
CHECKED = {"ingest tiny", "alignment tiny", "accept tiny"}
RUN = {"train tiny", "evaluate tiny"}
EVALUATED = ("train_tiny", "evaluate_tiny")
EVERYTHING = CHECKED | STORES | RUN
AFTER_CHECKS = dict.fromkeys(["alignment tiny", "accept tiny", *STORES], AGAIN)
MANIFESTS = {
    "survey.json": "survey tiny",
    "ingest/shards/0-of-1.json": "ingest tiny",
    "k8/accepted.json": "accept tiny",
    "k8/shards/0-of-1.json": "voxelize tiny",
    "k8/dataset.json": "statistics tiny",
}
LATE = {
    "data/tiny/ingest/shards/0-of-1.json": "ingest tiny",
    "data/tiny/alignment.csv": "alignment tiny",
    "data/tiny/k8/accepted.json": "accept tiny",
    "data/tiny/k8/dataset.json": "statistics tiny",
    "evaluate/tiny/summary.json": "evaluate tiny",
    "performance/tiny/findings.json": "analyze_performance tiny",
    "compare/table.csv": "compare",
    "index.html": "page",
}


def trained(*presets: str) -> set[str]:
    """The stages of some presets from training on, without those that show several."""
    rules = ("train", "evaluate", "analyze_performance")
    return {f"{rule} {preset}" for rule in rules for preset in presets}


CASES: dict[str, Case] = {
    "prepared data that were removed": Case(deleted("results/data"), reasons={}),
    "a touched raw file, comments, layout, settings that change no result": Case(
        both(
            lambda project: os.utime(project.folder / SPIKES),
            edit("src/vrtspike/data/voxels/bins.py", "def bin_", "# Why\ndef bin_"),
            edit("src/vrtspike/training/loop.py", '"""', '"""New words. '),
            edit("rules/voxelize.smk", "    input:", "\n    input:   "),
        ),
        (
            *("all", "--config", "GPUS=3", "RUNS=elsewhere"),
            "SETTINGS={TEST: {NUM_WORKERS: 1}, DATALOADER: {TOTAL_WORKERS: 1}}",
        ),
        reasons={},
    ),
    "results moved": Case(results_moved, reasons={}, ran=set()),
    "nothing remembered, and another environment": Case(
        both(
            FORGOTTEN,
            lambda project: project.write("environment.yml", "name: other\n") and None,
            lambda project: project.write("requirements.lock", "numpy==2\n") and None,
        ),
        reasons={},
        ran=set(),
        core=True,
    ),
    "new sequence": Case(
        sequence_added,
        EVALUATED,
        reasons={
            "survey tiny": "names below the data's folder changed",
            "ingest tiny": AGAIN,
            **AFTER_CHECKS,
        },
        ran={"survey tiny"} | EVERYTHING,
        runs=1,
    ),
    "other content of the same size with an older date": Case(
        other_content_with_an_older_date,
        EVALUATED,
        reasons={"ingest tiny": f"raw files of {NAME} changed", **AFTER_CHECKS},
        ran=EVERYTHING,
        runs=1,
        core=True,
    ),
    "a learning rate, settings of the evaluation": Case(
        edit("config/presets/other.yaml", "1.0e-4", "3.0e-4"),
        (
            *("evaluate_tiny", "train_other"),
            *("--config", "SETTINGS={TEST: {TILE: {SIZE: 64}}}"),
        ),
        reasons={
            "evaluate tiny": "TEST.TILE.SIZE 96 -> 64",
            "train other": "TRAIN.OPTIM.LR 0.0001 -> 0.0003",
        },
    ),
    "code of trainings, asked for": Case(
        edit("src/vrtspike/training/loop.py", "IN_A_ROW = 20", "IN_A_ROW = 21"),
        ("evaluate_tiny", "--config", "RETRAIN=tiny"),
        reasons={"train tiny": "asked for", "evaluate tiny": AGAIN},
    ),
    "no code to train again with": Case(
        lambda project: None, ("train_tiny", "--config", "RETRAIN=tiny"), reasons={}
    ),
    "lost survey": Case(
        deleted("results/data/tiny/survey.json"),
        ("train_tiny",),
        reasons={"survey tiny": MISSED, "ingest tiny": AGAIN, **AFTER_CHECKS},
    ),
    "lost results of many stages": Case(
        deleted(*(f"results/{name}" for name in LATE)),
        reasons=dict.fromkeys(LATE.values(), MISSED) | {"voxelize tiny": AGAIN},
    ),
    "damaged manifests": Case(
        cut(*(f"results/data/tiny/{name}" for name in MANIFESTS)),
        ("train_tiny",),
        reasons={
            **{"alignment tiny": AGAIN},
            **{stage: f"results/data/tiny/{name} is damaged" for name, stage in MANIFESTS.items()},
        },
    ),
    "a summary of another version": Case(
        edited_summary,
        EVALUATED,
        reasons={
            "evaluate tiny": f"{SUMMARY}: found schema 99, expected 1: no summary of an "
            "evaluation, or that of another version of this project"
        },
        ran={"evaluate tiny"},
    ),
    "damaged store": Case(store_cut, ran=STORES, core=True),
    "lost store": Case(
        deleted(STORE),
        ("train_tiny",),
        reasons={
            "voxelize tiny": f"results missing or damaged: 1, the first {NAME}",
            "statistics tiny": AGAIN,
        },
    ),
    "deleted manifest of a store": Case(deleted(f"results/data/tiny/k8/{OTHER}.json"), ran=STORES),
    "deleted manifest of a check": Case(
        deleted(f"results/data/tiny/ingest/{OTHER}.json"), ran=CHECKED | STORES
    ),
    "other bins": Case(
        edit("config/presets/tiny.yaml", "NUM_VOXEL_BINS: 8", "NUM_VOXEL_BINS: 4"),
        EVALUATED,
        ran={"accept tiny"} | STORES | RUN,
        runs=1,
    ),
    "more shards": Case(configured("SHARDS: {SEQUENCES: 1}\n"), ran=CHECKED | STORES),
    "the size of the spike sensor is given": Case(
        edit("config/config.yaml", "data/tiny}", "data/tiny, SPIKE_SIZE: [32, 48]}"),
        EVALUATED,
        # It is a setting of the run, too; the survey is passed it with the folder.
        ran={"survey tiny"} | EVERYTHING,
        runs=1,
    ),
    "an acceptance that says the same": Case(
        # The shortest clip of all presets of a data set is what acceptance asks for.
        edit("config/presets/other.yaml", "TRAIN:", "DATA: {CLIP_LEN: 1}\nTRAIN:"),
        EVALUATED,
        ran={"accept tiny"} | STORES,
    ),
    "deleted weights": Case(
        # They are published again; the run is finished.
        deleted("results/train/tiny/weights.safetensors"),
        ("evaluate_tiny",),
        reasons={"train tiny": MISSED, "evaluate tiny": AGAIN},
        ran={"train tiny", "evaluate tiny"},
    ),
    "learning rate, the training was stopped before its end, and nothing is remembered": Case(
        # Snakemake removes what is published before a training begins.
        both(
            FORGOTTEN,
            edit("config/presets/other.yaml", "1.0e-4", "4.0e-4"),
            deleted("results/train/other/weights.safetensors"),
        ),
        ran=trained("other") | SHOWN,
        runs=1,
    ),
}


def decided(reasons: dict[str, str]) -> dict[str, str]:
    """Stages that will run in any case; of others it is known when the data are made again."""
    return {stage: reason for stage, reason in reasons.items() if OPEN not in reason}


def assert_named(reasons: dict[str, str], case: Case) -> None:
    """The stages that will run in any case are those of the case, each with reason and time."""
    named = decided(reasons)
    assert {stage: reason.partition(";")[0] for stage, reason in named.items()} == case.reasons
    assert all("; took " in reason for reason in named.values())


PLANNED = {name: case for name, case in CASES.items() if case.reasons is not None and not case.core}
"""Cases whose reasons no run of CI looks at."""


@pytest.mark.core
@pytest.mark.parametrize("case", PLANNED.values(), ids=PLANNED)
def test_stale_stages_are_named_with_the_reason(project, case):
    case.change(project)
    assert_named(project.why(*case.targets), case)


def folders_of_runs(project: Project) -> set[Path]:
    return {path.relative_to(project.folder) for path in project.folder.glob("runs/*/*")}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.core] * case.core)
        for name, case in CASES.items()
        if case.ran is not None
    ],
)
def test_dependent_stages_run_and_no_others(project, case):
    runs = folders_of_runs(project)
    case.change(project)
    result = outcome(project, *case.targets)
    if case.reasons is not None:
        assert_named(result.reasons, case)
    assert result.ran == case.ran
    # The stages reported before have run, but for those decided when the data are made again.
    assert decided(result.reasons).keys() <= result.ran <= result.reasons.keys()
    # No run is lost.
    assert runs < folders_of_runs(project) if case.runs else runs == folders_of_runs(project)
    assert len(folders_of_runs(project)) == len(runs) + case.runs
    assert outcome(project, *case.targets).ran == set()


def test_training_again_is_the_users_choice(project):
    (before,) = (project.folder / "runs/tiny").iterdir()
    weights = (project.folder / "results/train/tiny/weights.safetensors").read_bytes()
    with project.replaced(
        "src/vrtspike/training/loop.py", "MAX_SKIPPED_IN_A_ROW = 20", "MAX_SKIPPED_IN_A_ROW = 21"
    ):
        # With as many threads as before, when two presets were trained side by side.
        again = ("--set-threads", "train=1", "--config", "RETRAIN=tiny")
        output = project.make("train_tiny", *again)
        second = project.make("train_tiny")
    assert "the former run is now" in output
    assert "Nothing to be done" in second
    assert "trained by other code" not in second
    runs = {path.name for path in (project.folder / "runs/tiny").iterdir()}
    assert runs == {before.name, f"{before.name}.1"}
    # The same settings, data and arithmetic give the same weights.
    published = project.folder / "results/train/tiny/weights.safetensors"
    assert published.read_bytes() == weights
