"""Training by `vrtspike.train` in a project: the same results as on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.workflow.project import Project

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

CALL = """
import vrtspike
result = vrtspike.train("tiny", {"TRAIN.MAX_STEPS": 1}, cores=2)
print(repr(result))
print("loaded", result.load(device="cpu").run.fingerprint == result.run.fingerprint)
"""

SHOWN = """
print(run, evaluation, f"{len(evaluation.sequences)} sequence", sep="\\n")
"""


def call(project: Project, code: str) -> tuple[int, str]:
    """Run code in the project's folder; gives the exit status, and errors, then the output."""
    done = project.python("-c", code)
    return done.returncode, done.stderr + done.stdout


def run_notebook(project: Project, file: Path) -> None:
    """Run the notebook in a trained project, in the folder ``docs``; nothing is left there."""
    (clip,) = (project.folder / "data/tiny/test").iterdir()
    text = file.read_text(encoding="utf-8").replace("data/demo/test/GOPR0101_11_00", str(clip))
    notebook = nbformat.reads(text.replace("data/demo", "data/tiny"), as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace('"light_demo"', '"tiny"')
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    docs = project.folder / "docs"
    docs.mkdir()
    before = files_beside_snakemake(project)
    client = NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(docs)}})
    client.execute(env=project.environment)
    outputs = str([cell.get("outputs") for cell in notebook.cells])
    assert outputs.count("image/png") == 2
    assert outputs.count("<video") == 1
    for shown in ("psnr_blur", "3 sequences, 3 without faults", ", 7 steps, ", "tiny: 3 frames"):
        assert shown in outputs
    assert files_beside_snakemake(project) == before


def files_beside_snakemake(project: Project) -> list[Path]:
    """All files but Snakemake's own notes and Python's compiled modules."""
    kept = []
    for path in sorted(project.folder.rglob("*")):
        if not {".snakemake", "__pycache__"} & set(path.parts):
            kept.append(path)
    return kept


def test_a_call_trains_by_the_workflow_and_another_does_nothing(tiny, repository):
    with (tiny.folder / "config/config.yaml").open("a") as stream:
        stream.write("SET: TRAIN.MAX_STEPS=7 SEED=5\n")
    status, output = call(tiny, CALL)
    assert status == 0, output
    published = tiny.folder / "results/train/tiny"
    settings = json.loads((published / "settings.json").read_text())
    # The overrides of the configuration stay, and those of the call win.
    assert settings["settings"]["SEED"] == 5
    assert settings["settings"]["TRAIN"]["MAX_STEPS"] == 1
    assert f"results/train/tiny: tiny ({settings['fingerprint']}), 1 steps, " in output
    assert output.splitlines()[-1] == "loaded True"
    assert "\ntrain " in output  # the line of the stage
    assert tiny.why("train_tiny", "--config", "SET=SEED=5 TRAIN.MAX_STEPS=1") == {}
    trained = (published / "weights.safetensors").stat().st_mtime_ns
    status, output = call(tiny, CALL)
    assert status == 0, output
    assert "ingest" not in output
    assert (published / "weights.safetensors").stat().st_mtime_ns == trained
    # The example of docs/api.md: the configuration's own steps, and the evaluation.
    page = (repository / "docs/api.md").read_text(encoding="utf-8")
    example = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    status, output = call(tiny, example.replace("demo", "tiny") + SHOWN)
    assert status == 0, output
    assert ", 7 steps, " in output
    assert "tiny: 3 frames, 1 sequences" in output
    assert output.splitlines()[-1] == "1 sequence"
    run_notebook(tiny, repository / "docs/restore.ipynb")


def test_unknown_presets_and_keys_are_refused_before_anything_runs(tiny):
    for code, message in (
        ("vrtspike.train('tiy')", "no preset 'tiy'; there are: "),
        ("vrtspike.train('tiny', {'TRAIN.MAX_STEP': 1})", "TRAIN.MAX_STEP"),
        ("import os; os.chdir('data'); vrtspike.train('tiny')", "no config/config.yaml here"),
    ):
        status, output = call(tiny, f"import vrtspike\n{code}")
        assert status == 1
        assert message in output
        assert "Error: " in output
    assert not (tiny.folder / "results").exists()
