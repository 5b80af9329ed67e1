"""Projects in a folder of their own, outside the clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.workflow.project import Project

pytestmark = pytest.mark.workflow

SNAKEFILE = """
configfile: "config/config.yaml"


module vrtspike:
    snakefile:
        "{snakefile}"
    config:
        config


use rule * from vrtspike


rule count:
    input:
        "results/data/demo/survey.json",
    output:
        "count.txt",
    shell:
        "wc -c {{input}} > {{output}}"
"""


def run(cloned_project: Project, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a folder, with the package of the clone."""
    return subprocess.run(
        cloned_project.command(*words),
        cwd=folder,
        env=cloned_project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    """A project with a configuration, and without a workflow."""
    (tmp_path / "project/config/presets").mkdir(parents=True)
    (tmp_path / "project/config/config.yaml").write_text("PRESETS: [demo]\nGPUS: 0\n")
    return tmp_path / "project"


def test_the_snakefile_runs_in_another_folder(cloned_project, folder, tmp_path):
    snakefile = str(cloned_project.folder / "workflow/Snakefile")
    preset = folder / "config/presets/mine.yaml"
    preset.write_text("BASE: light_demo\nTRAIN: {MAX_STEPS: 3}\n")
    words = ("--snakefile", snakefile, "--directory", str(folder), "--cores", "1")
    done = run(cloned_project, tmp_path, *words, "results/data/demo/survey.json", "--quiet", "all")
    assert done.returncode == 0, done.stdout
    assert (folder / "results/data/demo/survey.json").is_file()
    assert not (cloned_project.folder / "results").exists()
    plan = run(cloned_project, folder, "--snakefile", snakefile, "-n", "-p", "demo", "train_mine")
    assert plan.returncode == 0, plan.stdout
    # What was made with another working directory counts.
    assert "survey" not in {line.partition(" ")[0] for line in plan.stdout.splitlines()}
    assert 'python "$VRTSPIKE_WORKFLOW"/scripts/ingest.py' in plan.stdout
    assert "--preset mine" in plan.stdout


def test_it_is_a_module_of_another_workflow(cloned_project, folder):
    text = SNAKEFILE.format(snakefile=cloned_project.folder / "workflow/Snakefile")
    (folder / "Snakefile").write_text(text)
    plan = run(cloned_project, folder, "-n", "count", "demo")
    assert plan.returncode == 0, plan.stdout
    assert {"rule survey:", "rule count:", "rule demo:"} <= set(plan.stdout.splitlines())
    # Checks before the first job belong to it, too.
    refused = run(cloned_project, folder, "--cores", "1", "train_demo", "--config", "GPUS=99")
    assert refused.returncode == 2
    assert "99 GPUs are asked for" in refused.stdout
    (folder / "Snakefile").write_text(text.replace("        config\n", "        {'GPUS': 1}\n"))
    refused = run(cloned_project, folder, "-n", "count")
    assert refused.returncode == 2
    assert "the module has a config of its own, which is not read: found {'GPUS': 1}" in (
        refused.stdout
    )


def test_a_folder_without_a_configuration_is_refused(cloned_project, tmp_path):
    done = run(
        cloned_project,
        tmp_path,
        "-s",
        str(cloned_project.folder / "workflow/Snakefile"),
        "-n",
        "demo",
    )
    assert done.returncode == 2
    (error,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert error.endswith("or make one: vrtspike init my_project")
    assert "Traceback" not in done.stdout


def test_a_new_project_plans_the_demo_and_says_if_it_is_of_another_version(
    cloned_project, tmp_path
):
    made = cloned_project.python("-m", "vrtspike", "init", str(tmp_path / "mine"))
    assert made.returncode == 0, made.stderr
    version = tmp_path / "mine/config/made_with.json"
    version.write_text('{"vrtspike": "0.0.1"}')
    plan = run(cloned_project, tmp_path / "mine", "-n", "-p", "demo")
    assert plan.returncode == 0, plan.stdout
    assert 'python "$VRTSPIKE_WORKFLOW"/scripts/launch_training.py' in plan.stdout
    # The project's own profile, whose logger shows a line per stage.
    assert "profile workflow/profiles/default" in plan.stdout
    assert plan.stdout.count("was made with vrtspike 0.0.1") == 1
