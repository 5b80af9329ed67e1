"""The problem that docs/extending.md adds, added as it says, through the whole workflow."""

from __future__ import annotations

import difflib
import html
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from tests.walks import Block, read_walks
from tests.workflow.project import Project

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

PRESET = "config/presets/waves.yaml"
LINES = {
    "src/vrtspike/problems.py": '    "waves": "vrtspike.waves.problem",',
    "src/vrtspike/sst/models.py": '    "convolutions": "vrtspike.sst.convolutions.Convolutions",',
}
"""All that the page adds to files of the project."""
TARGETS = ("train_waves", "evaluate_waves", "analyze_performance_waves", "results/index.html")

NETWORK = """
import json
from pathlib import Path

import torch

from vrtspike.config.loading import load_preset
from vrtspike.sst import problem
from vrtspike.sst.models import build_model
from vrtspike.sst.prepared import open_split

small = ["DATA.GENERATE.YEARS=9"]
settings = load_preset("config/presets/sst_convolutions.yaml", small)
manifest = Path("small/dataset.json")
problem.prepare(settings, manifest, str)
samples = open_split(settings, manifest, "train")
network = build_model(settings.MODEL, samples.store, samples.seq_len, samples.lead)
past = samples[0]["past"][None]
print(json.dumps({
    "class": type(network).__name__,
    "parameters": sum(values.numel() for values in network.parameters()),
    "shapes": [past.shape, network(past, torch.tensor([0])).shape],
}))
"""


def files(project: Project) -> dict[str, str]:
    """Contents of everything that a clone of the project holds, by path."""
    found = (path for path in project.folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(project.folder)): path.read_bytes().decode("latin-1") for path in found
    }


@pytest.fixture(scope="module")
def blocks(repository: Path) -> list[Block]:
    """The code of the page, by the files it belongs to."""
    return read_walks(repository / "docs/extending.md")["A problem in the workflow"]


@pytest.fixture(scope="module")
def changes(repository, blocks, tmp_path_factory) -> tuple[Project, dict[str, list[str]]]:
    """A project to which the page's code was added, and what that changed: lines by file."""
    project = Project.copy(repository, tmp_path_factory.mktemp("third") / "project")
    project.write("config/config.yaml", "PRESETS: [waves]\nGPUS: 0\n")
    before = files(project)
    for block in blocks:
        block.write(project.folder)
    after = files(project)
    assert before.keys() <= after.keys()
    changed = {
        path: [
            line
            for line in difflib.ndiff(before.get(path, "").splitlines(), text.splitlines())
            if line.startswith(("+", "-"))
        ]
        for path, text in after.items()
        if before.get(path) != text
    }
    return project, changed


@pytest.fixture(scope="module")
def project(changes) -> Project:
    """The same project, trained, evaluated, analysed and shown."""
    made, _ = changes
    made.make(*TARGETS)
    return made


def test_a_folder_a_line_and_a_preset_are_all(changes, blocks):
    _, changed = changes
    assert set(changed) == {block.path for block in blocks}
    old = {path: lines for path, lines in changed.items() if path in LINES}
    assert old == {path: [f"+ {line}"] for path, line in LINES.items()}
    folders = {str(Path(path).parent) for path in changed if path not in LINES}
    assert folders == {"src/vrtspike/waves", "src/vrtspike/sst", "config/presets"}


def test_the_code_of_the_page_is_written_as_the_project_is(changes, repository):
    project, changed = changes
    shutil.copy(repository / "pyproject.toml", project.folder)
    sources = [path for path in changed if path.endswith(".py")]
    for command in (["format", "--check"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *sources],
            cwd=project.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


def convolved(frames: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(N, C, H, W) to (N, D, H, W): 3 x 3 neighbours on a torus, weights (D, C, 3, 3)."""
    total = np.zeros((len(frames), len(weights), *frames.shape[2:])) + bias[:, None, None]
    for row in range(3):
        for column in range(3):
            neighbours = np.roll(frames, (1 - row, 1 - column), axis=(2, 3))
            total += np.einsum("dc,nchw->ndhw", weights[:, :, row, column], neighbours)
    return total


def test_figures_are_those_of_the_weights_and_the_definition(project):
    results = project.folder / "results"
    (data,) = results.glob("data/waves_*/waves.npz")
    waves = np.load(data)["test"].astype(float)
    assert waves.shape == (16, 5, 16, 16)
    past, future = waves[:, :3], waves[:, 3:]
    of = load_file(results / "train/waves/weights.safetensors")
    hidden = convolved(past, of["0.weight"].astype(float), of["0.bias"])
    hidden *= 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    forecast = convolved(hidden, of["2.weight"].astype(float), of["2.bias"])

    def means(guess: np.ndarray) -> dict[str, float]:
        error = ((guess - future) ** 2).mean((2, 3))
        skill = 1 - error / future.var((2, 3))
        return {"skill": float(skill.mean()), "rmse": float(np.sqrt(error).mean())}

    own, still = means(forecast), means(past[:, -1:])
    summary = json.loads((results / "evaluate/waves/summary.json").read_text())
    assert set(summary["metrics"]) == {"skill", "rmse"}
    for name, sign in (("skill", 1), ("rmse", -1)):
        figures = summary["metrics"][name]
        # The network computes in float32.
        assert figures["forecast"] == pytest.approx(own[name], rel=1e-4)
        assert figures["persistence"] == pytest.approx(still[name], rel=1e-4)
        assert figures["gain"] == pytest.approx(sign * (own[name] - still[name]), rel=1e-4)
    assert (summary["frames"], summary["sequences"], summary["task"]) == (32, 16, "waves")
    assert own["skill"] > 0.9 > still["skill"]
    sequences = pd.read_csv(results / "evaluate/waves/sequences.csv")
    assert list(sequences["rmse"]) == pytest.approx(
        np.sqrt(((forecast - future) ** 2).mean((2, 3))).mean(1), rel=1e-3
    )


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
    assert f"RMSE {rmse['persistence']:.3f} → {rmse['forecast']:.3f}" in page
    (text,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', page)
    (run,) = json.loads(text)["runs"]
    assert [figure["caption"] for figure in run["evaluation"]["figures"]] == [
        "Last read, forecast, true"
    ]
    assert len(run["evaluation"]["frame_rows"]) == 32
    assert (run["uses_spikes"], run["evaluation"]["spikes_note"]) == (None, "")
    assert set(run["curves"]["validation"]) >= {"skill", "RMSE"}
    findings = json.loads((results / "performance/waves/findings.json").read_text())
    assert set(findings["figures"]["health"]["best"]) == {"skill", "rmse"}


def test_only_what_is_stale_runs_again(project):
    # Another call with the same keys; `project.plan` names the jobs and their reasons.
    done = project.snakemake("--dry-run", *TARGETS)
    assert "Nothing to be done" in done.stdout
    with project.replaced(PRESET, "LR: 0.02", "LR: 0.01"):
        plan = {job.rule: job.reason for job in project.plan(*TARGETS)}
    assert set(plan) == {"train", "evaluate", "analyze_performance", "page"}
    assert "TRAIN.OPTIM.LR: 0.01" in plan["train"]
    with project.replaced(PRESET, "TASK: waves\n", "TASK: waves\nDATA: {SEED: 1}\n"):
        assert {job.rule for job in project.plan("train_waves")} == {"prepare", "train"}


def test_another_network_forecasts_the_sea(changes):
    project, _ = changes
    done = subprocess.run(
        [sys.executable, "-c", NETWORK],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    past, forecast = found["shapes"]
    assert found["class"] == "Convolutions"
    assert found["parameters"] == (12 * 9 + 1) * 32 + (32 * 9 + 1) * 3
    assert (past[1], forecast) == (12, [1, 3, *past[2:]])
