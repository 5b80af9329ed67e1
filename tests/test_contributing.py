"""Every walk of CONTRIBUTING.md is taken, and leads where it says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.walks import costs, read_walks
from tests.workflow.project import Project, make_tiny_data

TABLES = ("A loss", "A metric", "A raw layout", "A model")
WALKS = (*TABLES, "A stage", "A finding")

CODE = """
import json, sys
from pathlib import Path
from vrtspike.deblurring.settings import Settings
from vrtspike.planning.params import code_lines, of_every_problem
from vrtspike.runs.code import training_code
from vrtspike.runs.identity import result_settings
uses = {
    "evaluate.py": ["vrtspike.deblurring.problem.evaluate"],
    "demo_summary.py": of_every_problem("METRICS"),
    **dict.fromkeys(
        ["analyze_performance.py", "compare.py", "ablation.py", "report_page.py"],
        [*of_every_problem("METRICS"), *of_every_problem("SETTINGS")],
    ),
}
programs = {
    name: code_lines(Path("scripts", name), uses=uses.get(name, ())) for name in sys.argv[1:]
}
training = dict(training_code(Path("scripts/train.py").resolve(), "deblurring"))
print(json.dumps([programs, training, result_settings(Settings())]))
"""
"""What staleness is decided by, in the project that it runs in."""


@dataclass(frozen=True)
class Taken:
    """A copy of the project in which all walks were taken.

    Attributes:
        project: the copy.
        stale: by walk the programs whose stages run again.
        trained: by walk the definitions behind a training that are others now.
        runs: by walk whether the settings of a preset that stood before mean another run.
        wrote: what ``config_reference.py`` said.
    """

    project: Project
    stale: dict[str, set[str]]
    trained: dict[str, set[str]]
    runs: dict[str, bool]
    wrote: str


def call(project: Project, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=project.folder,
        env={**project.environment, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def taken(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Taken:
    project = Project.copy(repository, tmp_path_factory.mktemp("walks") / "project")
    shutil.copy(repository / "pyproject.toml", project.folder)
    rules = "".join(path.read_text() for path in (repository / "rules").rglob("*.smk"))
    programs = sorted(set(re.findall(r'code\((?:"evaluate", )?"(\w+\.py)"', rules)))
    assert "evaluate.py" in programs

    def decided() -> Any:
        return json.loads(call(project, "-c", CODE, *programs))

    before = decided()
    stale, trained, runs = {}, {}, {}
    wrote = ""
    for walk, blocks in read_walks(repository / "CONTRIBUTING.md").items():
        for block in blocks:
            block.write(project.folder)
        call(project, "-m", "ruff", "check", "--fix", "--select", "I", "--quiet", ".")
        if walk in TABLES:
            wrote += call(project, "scripts/config_reference.py")
        after = decided()
        stale[walk] = {name for name in programs if after[0][name] != before[0][name]}
        known = after[1].keys() | before[1].keys()
        trained[walk] = {name for name in known if after[1].get(name) != before[1].get(name)}
        runs[walk] = after[2] != before[2]
        before = after
    return Taken(project, stale, trained, runs, wrote)


@pytest.mark.endurance
def test_there_is_a_walk_for_everything_that_is_often_added(taken):
    assert tuple(taken.stale) == WALKS


@pytest.mark.endurance
def test_the_code_of_the_walks_is_written_as_the_project_is(taken):
    call(taken.project, "-m", "ruff", "format", "--check", ".")
    call(taken.project, "-m", "ruff", "check", ".")
    for path in ("deblurring/losses/edge.py", "deblurring/metrics/mae.py"):
        module = f"vrtspike.{path.removesuffix('.py').replace('/', '.')}"
        told = call(
            taken.project, "-c", f"import doctest, {module} as m; print(doctest.testmod(m))"
        )
        assert told == "TestResults(failed=0, attempted=1)\n"


@pytest.mark.endurance
def test_names_and_keys_reach_the_reference(taken):
    for path in (
        "src/vrtspike/deblurring/settings/names.py",
        "config/README.md",
        "config/schema.json",
    ):
        assert path in taken.wrote
    call(taken.project, "scripts/config_reference.py", "--check")
    page = (taken.project.folder / "config/README.md").read_text()
    for words in ("`LOSS.EDGE.DELTA`", "`mae`", "`reds`", "`residual_3d`"):
        assert words in page


@pytest.mark.endurance
def test_each_walk_costs_what_it_says(taken, repository):
    told = costs(repository / "CONTRIBUTING.md")
    found = {walk: set(re.findall(r"\w+\.py", text)) for walk, text in told.items()}
    assert found == taken.stale
    # No walk trains again: which code trained the results of before is only told.
    assert len(taken.runs) >= 4
    assert not any(taken.runs.values())
    assert {walk for walk, changed in taken.trained.items() if changed} == {"A loss", "A model"}


@pytest.fixture(scope="module")
def reds(taken, tmp_path_factory) -> Path:
    """A folder with the tiny data set in the layout that was added."""
    folder = tmp_path_factory.mktemp("reds")
    make_tiny_data(folder / "gopro")
    for path in (folder / "gopro").glob("*/*/*/*.*"):
        split, sequence, part, name = path.relative_to(folder / "gopro").parts
        target = folder / "data" / split / f"{split}_{part}" / sequence / name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    return folder


@pytest.mark.endurance
def test_what_was_added_trains_restores_and_is_measured(taken, reds):
    program = str(Path(__file__).with_name("walks_run.py"))
    found = json.loads(call(taken.project, program, str(reds)).splitlines()[-1])
    assert found["layout"] == "reds"
    assert found["settings"]["MODEL"]["TYPE"] == "residual_3d"
    assert [set(losses) for losses in found["losses"]] == [{"charbonnier", "edge"}] * 2
    # Of equal frames each of the two sums of the edge loss would be DELTA.
    assert all(losses["edge"] > 0.5 * 2 * 0.01 for losses in found["losses"])
    assert found["parameters"] == (7 * 27 + 1) * 16 + (16 * 27 + 1) * 16 + (16 * 27 + 1) * 3
    error = found["metrics"]["mae"]
    assert 0 < error["restored"] < 255
    assert error["gain"] == pytest.approx(error["blurry"] - error["restored"])
    assert "mae: Mean absolute error" in found["table"]
    assert found["findings"]["warm-up longer than the run"] == {"TRAIN.SCHED.WARMUP_STEPS": 0}


@pytest.mark.endurance
def test_the_stage_counts_spikes(taken, tmp_path):
    (tmp_path / "alignment.csv").write_text(
        "split,sequence,frame,t0,t1,spike_count\ntrain,a,1,0,50,300\ntrain,a,2,50,100,100\n"
    )
    arguments = ("--alignment", f"{tmp_path}/alignment.csv", "--output", f"{tmp_path}/rates.csv")
    call(taken.project, "scripts/spike_rates.py", *arguments)
    assert (tmp_path / "rates.csv").read_text() == "split,sequence,spikes_per_step\ntrain,a,4\n"


@pytest.mark.endurance
@pytest.mark.workflow
def test_the_stage_is_planned(taken):
    make_tiny_data(taken.project.folder / "data/gopro_spike")
    done = taken.project.snakemake("--dry-run", "all_spike_rates")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^rule all_spike_rates:$", done.stdout, re.MULTILINE)
    assert re.search(r"^rule spike_rates:$", done.stdout, re.MULTILINE)
    listed = taken.project.snakemake("--list").stdout
    assert "Spike rates of the data of every preset." in listed
