"""Every walk of docs/first-changes.md is followed, and leads where it says."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from tests.repository.walks import read_walks
from tests.workflow.project import Project, make_tiny_data

WALKS = ("A loss", "A metric", "A raw layout", "A model", "A stage", "A finding")

pytestmark = [pytest.mark.core, pytest.mark.endurance]


@dataclass(frozen=True)
class AppliedGuide:
    """A copy of the project in which all walks were followed.

    Attributes:
        project: the copy.
        walks: their names, in order.
        wrote: what ``config_reference.py`` said.
    """

    project: Project
    walks: tuple[str, ...]
    wrote: str


def call(project: Project, *command: str) -> str:
    done = project.python(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def guide(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> AppliedGuide:
    project = Project.copy(repository, tmp_path_factory.mktemp("walks") / "project")
    for name in ("pyproject.toml", "README.md", "README.zh-CN.md"):
        shutil.copy(repository / name, project.folder)
    shutil.copytree(repository / "docs", project.folder / "docs", dirs_exist_ok=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / "tests", project.folder / "tests", ignore=ignored)
    walks = read_walks(repository / "docs/first-changes.md")
    for block in chain.from_iterable(walks.values()):
        block.write(project.folder)
    call(project, "-m", "ruff", "check", "--fix", "--select", "I", "--quiet", ".")
    return AppliedGuide(project, tuple(walks), call(project, "scripts/config_reference.py"))


def test_there_is_a_walk_for_everything_that_is_often_added(guide):
    assert guide.walks == WALKS


def test_the_code_of_the_walks_is_written_as_the_project_is(guide):
    call(guide.project, "-m", "ruff", "format", "--check", ".")
    call(guide.project, "-m", "ruff", "check", ".")
    for path in ("losses/edge.py", "metrics/mae.py"):
        module = f"vrtspike.{path.removesuffix('.py').replace('/', '.')}"
        output = call(
            guide.project, "-c", f"import doctest, {module} as m; print(doctest.testmod(m))"
        )
        assert output == "TestResults(failed=0, attempted=1)\n"


def test_names_and_keys_reach_the_reference(guide):
    for path in (
        "config/README.md",
        "config/schema.json",
    ):
        assert path in guide.wrote
    call(guide.project, "scripts/config_reference.py", "--check")
    page = (guide.project.folder / "config/README.md").read_text()
    for words in ("`LOSS.EDGE.DELTA`", "`mae`", "`hazy`", "`residual_3d`"):
        assert words in page


def test_a_finding_passes_its_test_and_reaches_its_page(guide):
    call(guide.project, "-m", "pytest", "-q", "tests/analysis/diagnosis/test_symptom.py")
    call(guide.project, "scripts/advice_reference.py")
    page = (guide.project.folder / "docs/findings.md").read_text()
    assert "\n| slow optimiser | section `step/optimizer`, its share of a step | over 20% |" in page


RATES = "results/data/hazy/spike_rates.csv"
PRESET = """\
BASE: baseline
DATA: {ROOT: data/hazy, CROP_SIZE: 32, CLIP_LEN: 2, NUM_VOXEL_BINS: 4, VALIDATION: test}
MODEL: {TYPE: residual_3d}
DATALOADER: {TRAIN_WORKERS: 0, VAL_WORKERS: 0}
TRAIN: {MAX_STEPS: 2, GRADIENT_ACCUMULATION_STEPS: 1, PRECISION: "32"}
LOSS: {EDGE: {WEIGHT: 0.5, DELTA: 0.01}}
TEST: {METRICS: [mae, psnr], NUM_WORKERS: 0, TILE: {SIZE: 96, OVERLAP: 16}}
"""


@pytest.mark.workflow
def test_what_was_added_is_planned_trains_and_is_measured(guide):
    project = guide.project
    make_tiny_data(project.folder / "gopro")
    for path in (project.folder / "gopro").glob("*/*/*/*.*"):
        split, sequence, part, name = path.relative_to(project.folder / "gopro").parts
        part = {"blur": "hazy", "sharp": "clear"}.get(part, part)
        target = project.folder / "data/hazy" / split / f"{split}_{part}" / sequence / name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    project.write("config/presets/walked.yaml", PRESET)
    project.make(
        *("evaluate_walked", RATES),
        *("--config", "PRESETS=walked", "GPUS=0"),
    )
    results = project.folder / "results"
    (survey,) = results.glob("data/*/survey.json")
    assert json.loads(survey.read_text())["layout"] == "hazy"
    assert (project.folder / RATES).read_text().startswith("split,sequence,spikes_per_step\n")
    steps = map(json.loads, (results / "train/walked/metrics.jsonl").read_text().splitlines())
    losses = [step["losses"] for step in steps if step["kind"] == "train"]
    assert [set(terms) for terms in losses] == [{"charbonnier", "edge"}] * 2
    # Of equal frames each of the two sums of the edge loss would be DELTA.
    assert all(terms["edge"] > 0.5 * 2 * 0.01 for terms in losses)
    summary = json.loads((results / "evaluate/walked/summary.json").read_text())
    assert summary["parameters"] == (7 * 27 + 1) * 16 + (16 * 27 + 1) * 16 + (16 * 27 + 1) * 3
    error = summary["metrics"]["mae"]
    assert 0 < error["restored"] < 255
    assert error["gain"] == pytest.approx(error["blurry"] - error["restored"])
    assert "Mean absolute error" in (results / "evaluate/walked/metrics.html").read_text()
