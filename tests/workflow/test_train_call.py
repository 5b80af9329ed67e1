"""Training by `vrtspike.train` in a project: the same results as on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.published_runs import write_lines
from tests.workflow.project import Project
from vrtspike.api import training
from vrtspike.config.workflow_schema import WorkflowSettings
from vrtspike.io.files import write_json

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CALL = """
import vrtspike

def train():
    return vrtspike.train("tiny", {"TRAIN.MAX_STEPS": 1}, cores=2)

result = train()
print(repr(result))
print("loaded", result.load(device="cpu").run.fingerprint == result.run.fingerprint)
weights = result.folder / "weights.safetensors"
date = weights.stat().st_mtime_ns
train()
print("again", weights.stat().st_mtime_ns == date)
"""

SHOWN = """
print(run, evaluation, f"{len(evaluation.sequences)} sequence", sep="\\n")
"""

REFUSED = """
import os
import vrtspike

def refused(*arguments):
    try:
        vrtspike.train(*arguments)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")

refused("tiy")
refused("tiny", {"TRAIN.MAX_STEP": 1})
os.chdir("data")
refused("tiny")
"""


def call(project: Project, code: str) -> str:
    """Run code in the project's folder; gives what it printed."""
    done = project.python("-c", code)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def run_notebook(project: Project, file: Path, example: str) -> None:
    """Run the notebook and an example in a project, in the folder ``docs``.

    Both train with the steps of the configuration, and evaluate; they leave only results.
    """
    (clip,) = (project.folder / "data/tiny/test").iterdir()
    text = file.read_text(encoding="utf-8").replace("data/demo/test/GOPR0101_11_00", str(clip))
    notebook = nbformat.reads(text.replace("data/demo", "data/tiny"), as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace('"light_demo"', '"tiny"')
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    notebook.cells.append(nbformat.v4.new_code_cell(example.replace("demo", "tiny") + SHOWN))
    docs = project.folder / "docs"
    docs.mkdir()
    before = files_beside_results(project)
    client = NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(docs)}})
    client.execute(env=project.environment)
    outputs = str([cell.get("outputs") for cell in notebook.cells[:-1]])
    assert outputs.count("image/png") == 2
    assert outputs.count("<video") == 1
    for shown in ("psnr_blur", "3 sequences, 3 without faults", ", 7 steps, ", "tiny: 3 frames"):
        assert shown in outputs
    printed = str(notebook.cells[-1].outputs)
    for shown in (", 7 steps, ", "tiny: 3 frames, 1 sequences", "1 sequence\\n"):
        assert shown in printed
    assert files_beside_results(project) == before


def files_beside_results(project: Project) -> list[Path]:
    """All files but results, Snakemake's own notes and Python's compiled modules."""
    made = {"results", "runs", ".snakemake", "__pycache__"}
    return [path for path in sorted(project.folder.rglob("*")) if not made & set(path.parts)]


@pytest.fixture(scope="module")
def project(finished) -> Project:
    """A project with prepared data, whose configuration sets steps and seed."""
    with (finished.folder / "config/config.yaml").open("a") as stream:
        stream.write("SET: TRAIN.MAX_STEPS=7 SEED=5\n")
    return finished


def test_a_call_trains_by_the_workflow_and_another_does_nothing(project):
    output = call(project, CALL)
    settings = json.loads((project.folder / "results/train/tiny/settings.json").read_text())
    # The overrides of the configuration stay, and those of the call win.
    assert settings["settings"]["SEED"] == 5
    assert settings["settings"]["TRAIN"]["MAX_STEPS"] == 1
    assert f"results/train/tiny: tiny ({settings['fingerprint']}), 1 steps, " in output
    assert {"loaded True", "again True"} <= set(output.splitlines())
    assert len(re.findall("^train +1/1 ", output, re.MULTILINE)) == 1  # the line of the stage
    assert project.why("train_tiny", "--config", "SET=SEED=5 TRAIN.MAX_STEPS=1") == {}


@pytest.mark.parametrize(
    ("train", "text"),
    [({}, "last validation: psnr 28"), ({"EARLY_STOPPING": {}}, "best validation: psnr 31")],
)
def test_metrics_are_those_of_the_weights(publish, tmp_path, monkeypatch, train, text):
    folder = publish("one", TRAIN=train)
    lines = [
        {"kind": "validation", "step": step, "psnr": psnr}
        for step, psnr in ((5, 30.0), (10, 31.0), (15, 28.0))
    ]
    write_lines(folder / "metrics.jsonl", lines)
    write_json(folder / "run.json", {"status": "finished", "step": 15, "best_step": 10})
    (folder / "weights.safetensors").touch()
    settings = WorkflowSettings(RESULTS=str(tmp_path))
    workflow = SimpleNamespace(settings=settings, settings_of=lambda preset: None)
    monkeypatch.setattr(training, "load_project_config", lambda *arguments: workflow)
    monkeypatch.setattr(training, "run_snakemake", lambda *arguments: None)
    assert repr(training.train("one")).splitlines()[1] == text


def test_the_notebook_and_the_example_of_the_page_train_and_evaluate(project, repository):
    page = (repository / "docs/api.md").read_text(encoding="utf-8")
    example = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    run_notebook(project, repository / "docs/restore.ipynb", example)


def test_unknown_presets_and_keys_are_refused_before_anything_runs(uncomputed_project):
    output = call(uncomputed_project, REFUSED)
    for message in (
        "ConfigError: .*no preset 'tiy'; there are: ",
        r"ConfigError: .*TRAIN\.MAX_STEP",
        r"\w+Error: .*no config/config\.yaml here",
    ):
        assert re.search(f"^{message}", output, re.MULTILINE), output
    assert not (uncomputed_project.folder / "results").exists()
