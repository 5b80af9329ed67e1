"""Which stages a change makes stale, by real runs: those that ``vrtspike why`` has named.

Which sequences of a stage are done again is tested by tests/deblurring/planning/test_shards.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.project import CONFIG, Project, make_sequence
from tests.workflow.staleness import copied, outcome

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.endurance,
]

TRAIN, OTHER, TEST = "train/GOPR0001_11_00", "train/GOPR0002_11_00", "test/GOPR0101_11_00"
SEQUENCES = (TRAIN, OTHER, TEST)
NEW = "train/GOPR0003_11_00"
SPIKES = f"data/tiny/{TRAIN}/spike/000002.dat"
BOTH = ("tiny", "other")
OPEN = "decided when the data are made again"

Change = Callable[[Project], None]


@pytest.fixture
def project(finished_once: Project, tmp_path: Path) -> Project:
    """A finished project of this test's own."""
    return copied(finished_once, tmp_path / "project")


def edit(path: str, old: str, new: str) -> Change:
    """Replace a text in a file."""

    def change(project: Project) -> None:
        project.replace(path, old, new)

    return change


def configured(lines: str) -> Change:
    """Append to the configuration."""
    return lambda project: project.write("config/config.yaml", CONFIG + lines) and None


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
    files = (project.folder / f"results/data/tiny/k8/{TRAIN}.zarr").rglob("*")
    largest = max((path for path in files if path.is_file()), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-5])


def deleted(path: str) -> Change:
    """Remove a file."""
    return lambda project: (project.folder / path).unlink()


def forgotten(project: Project) -> None:
    """What Snakemake remembers is removed, as people do to get rid of a lock."""
    shutil.rmtree(project.folder / ".snakemake")


def results_moved(project: Project) -> None:
    (project.folder / "results").rename(project.folder / "elsewhere")
    configured("RESULTS: elsewhere\n")(project)


def both(*changes: Change) -> Change:
    """Several changes."""

    def change(project: Project) -> None:
        for one in changes:
            one(project)

    return change


CORE = (
    "nothing remembered, and another environment",
    "other content of the same size with an older date",
    "damaged store",
    "deleted manifest of a store",
    "learning rate, the training was stopped before its end, and nothing is remembered",
)
"""The cases of both tables that CI runs."""


def with_core(cases: Mapping[str, Any]) -> list[Any]:
    """Parameters of a test, a case each."""
    return [
        pytest.param(case, id=name, marks=[pytest.mark.core] * (name in CORE))
        for name, case in cases.items()
    ]


NOTHING: dict[str, Change] = {
    "results moved": results_moved,
    "nothing remembered, and another environment": both(
        forgotten,
        lambda project: project.write("environment.yml", "name: other\n") and None,
        lambda project: project.write("requirements.lock", "numpy==2\n") and None,
    ),
}
"""Plans of other changes that cost nothing are those of test_run.py."""


@pytest.mark.parametrize("change", with_core(NOTHING))
def test_nothing_runs(project, change):
    change(project)
    found = outcome(project, "all")
    assert found.reasons == {}
    assert found.ran == set()


def folders_of_runs(project: Project) -> set[Path]:
    return {path.relative_to(project.folder) for path in project.folder.glob("runs/*/*")}


@dataclass(frozen=True)
class Case:
    """A change and what it costs.

    Attributes:
        change: made to a finished project.
        ran: stages that run.
        runs: how many trainings begin; other jobs of them publish a run that is there.
        targets: what is asked for.
    """

    change: Change
    ran: set[str]
    runs: int = 0
    targets: tuple[str, ...] = ("all",)


SHOWN = {"compare", "page", "report"}
STORES = {"voxelize tiny", "statistics tiny"}
CHECKED = {"ingest tiny", "alignment tiny", "accept tiny"}


def trained(*presets: str) -> set[str]:
    """The stages of some presets from training on, without those that show several."""
    rules = ("train", "evaluate", "analyze_performance")
    return {f"{rule} {preset}" for rule in rules for preset in presets}


RUN = {"train tiny", "evaluate tiny"}
EVALUATED = ("train_tiny", "evaluate_tiny")
EVERYTHING = CHECKED | STORES | RUN
CASES: dict[str, Case] = {
    "new sequence": Case(
        sequence_added,
        {"survey tiny"} | EVERYTHING,
        runs=1,
        targets=EVALUATED,
    ),
    "other content of the same size with an older date": Case(
        other_content_with_an_older_date,
        EVERYTHING,
        runs=1,
        targets=EVALUATED,
    ),
    "damaged store": Case(store_cut, STORES),
    "deleted manifest of a store": Case(deleted(f"results/data/tiny/k8/{OTHER}.json"), STORES),
    "deleted manifest of a check": Case(
        deleted(f"results/data/tiny/ingest/{OTHER}.json"), CHECKED | STORES
    ),
    "other bins": Case(
        edit("config/presets/tiny.yaml", "NUM_VOXEL_BINS: 8", "NUM_VOXEL_BINS: 4"),
        {"accept tiny"} | STORES | RUN,
        runs=1,
        targets=EVALUATED,
    ),
    "more shards": Case(configured("SHARDS: {SEQUENCES: 1}\n"), CHECKED | STORES),
    "the size of the spike sensor is given": Case(
        edit("config/config.yaml", "data/tiny}", "data/tiny, SPIKE_SIZE: [32, 48]}"),
        # It is a setting of the run, too.
        EVERYTHING,
        runs=1,
        targets=EVALUATED,
    ),
    "a gate that says the same": Case(
        # The shortest clip of all presets of a data set is what the gate asks for.
        edit("config/presets/other.yaml", "TRAIN:", "DATA: {CLIP_LEN: 1}\nTRAIN:"),
        {"accept tiny"} | STORES,
        targets=EVALUATED,
    ),
    "deleted weights": Case(
        # They are published again; the run is finished.
        deleted("results/train/tiny/weights.safetensors"),
        trained("tiny") | SHOWN,
    ),
    "learning rate, the training was stopped before its end, and nothing is remembered": Case(
        # Snakemake removes what is published before a training begins.
        both(
            forgotten,
            edit("config/presets/other.yaml", "1.0e-4", "4.0e-4"),
            deleted("results/train/other/weights.safetensors"),
        ),
        trained("other") | SHOWN,
        runs=1,
    ),
}


@pytest.mark.parametrize("case", with_core(CASES))
def test_what_depends_on_it_runs_and_nothing_else(project, case):
    runs = folders_of_runs(project)
    case.change(project)
    found = outcome(project, *case.targets)
    assert found.ran == case.ran
    # The stages reported before have run, but for those decided when the data are made again.
    undecided = {stage for stage, reason in found.reasons.items() if OPEN in reason}
    assert found.reasons.keys() - undecided <= found.ran <= found.reasons.keys()
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
