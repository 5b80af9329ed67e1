"""The task that docs/extending.md adds, added as it says, through the whole workflow."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.repository.walks import read_walks
from tests.workflow.project import Project

pytestmark = [
    pytest.mark.core,
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.slow,
]

PRESET = "config/presets/waves.yaml"
TARGETS = ("train_waves", "evaluate_waves", "analyze_performance_waves", "results/index.html")


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Project:
    """A project to which the page's code was added, trained, evaluated, analysed and shown."""
    made = Project.copy(repository, tmp_path_factory.mktemp("third") / "project")
    made.write("config/config.yaml", "PRESETS: [waves]\nGPUS: 0\n")
    for block in read_walks(repository / "docs/extending.md")["A task in the workflow"]:
        block.write(made.folder)
    made.make(*TARGETS)
    return made


def test_page_and_analysis_name_the_metrics(project):
    results = project.folder / "results"
    summary = json.loads((results / "evaluate/waves/summary.json").read_text())
    skill, rmse = summary["metrics"]["skill"], summary["metrics"]["rmse"]
    page = (results / "index.html").read_text()
    title = html.unescape(re.search(r"<title>(.*?)</title>", page)[1])
    words = (
        f"Preset waves takes 32 frames of data set {summary['dataset']} from skill "
        f"{skill['persistence']:.3f} (persistence) to {skill['forecast']:.3f} (forecast): "
        f"a gain of {skill['gain']:.3f}"
    )
    assert title.startswith(words)
    (text,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', page)
    data = json.loads(text)
    (run,) = data["runs"]
    (metric,) = (m for m in run["evaluation"]["metrics"] if m["name"] == "rmse")
    assert (metric["reference"], metric["result"]) == (rmse["persistence"], rmse["forecast"])
    assert [figure["caption"] for figure in run["evaluation"]["figures"]] == [
        "Last read, forecast, true"
    ]
    assert len(run["evaluation"]["frame_rows"]) == 32
    assert (run["task"], run["evaluation"]["notes"]) == ("waves", [])
    assert (data["data"], data["galleries"]) == ([], {})
    assert set(run["curves"]["validation"]) >= {"skill", "RMSE"}
    findings = json.loads((results / "performance/waves/findings.json").read_text())
    assert set(findings["measurements"]["health"]["best"]) == {"skill", "rmse"}


def test_only_stale_stages_run_again(project):
    assert project.why(*TARGETS) == {}
    with project.replaced(PRESET, "LR: 0.02", "LR: 0.01"):
        stages = project.why(*TARGETS)
    rules = ("train", "evaluate", "analyze_performance")
    assert set(stages) == {"page", *(f"{rule} waves" for rule in rules)}
    assert "TRAIN.OPTIM.LR 0.02 -> 0.01" in stages["train waves"]
    with project.replaced(PRESET, "TASK: waves\n", "TASK: waves\nDATA: {SEED: 1}\n"):
        assert set(project.why("train_waves")) == {"prepare", "train waves"}
