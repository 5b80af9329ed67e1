"""Recipes of containers, as far as they can be tried without an engine; the catalogue's file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.workflow.project import PARTS, Project
from vrtspike.machine.machine_checks import NEWEST_PYTHON, OLDEST_PYTHON

FOLDER = Path("workflow/containers")


@pytest.fixture(scope="module")
def docker(repository):
    """Instructions of the Dockerfile, a word and its text each."""
    text = (repository / FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


@pytest.fixture(scope="module")
def apptainer(repository):
    """Sections of the Apptainer recipe by name; the head's is empty."""
    text = (repository / FOLDER / "vrtspike.def").read_text()
    head, *parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    return {"": head, **dict(zip(parts[::2], parts[1::2], strict=True))}


def copied(docker) -> list[str]:
    """Files and folders of the checkout that are in the image."""
    return [name for word, text in docker if word == "COPY" for name in text.split()[:-1]]


def installs(text: str) -> list[str]:
    """What a recipe installs, without the words that only tidy up."""
    found = re.findall(r"(?:apt-get install|pip install) [^&\n]+", text)
    return [" ".join(line.split()) for line in found]


def test_the_python_is_one_that_is_tried(docker, apptainer):
    (image,) = [text for word, text in docker if word == "FROM"]
    name, tag = image.split(":")
    version = tuple(int(part) for part in tag.split("-")[0].split("."))
    assert name == "python"
    assert OLDEST_PYTHON <= version <= NEWEST_PYTHON
    # Both are made from the same image, with the same packages, in the same way.
    assert f"From: {image}\n" in apptainer[""]


def test_both_recipes_install_the_same_from_the_lock(docker, apptainer):
    runs = [text for word, text in docker if word == "RUN"]
    assert installs("\n".join(runs)) == installs(apptainer["post"])
    system, packages, own = installs(apptainer["post"])
    assert "--yes --no-install-recommends" in system
    # A compiler for Triton, and git for what a result is of.
    assert {"gcc", "libc6-dev", "git"} <= set(system.split())
    assert packages.endswith("--requirement requirements.lock")
    assert "--no-deps" in own
    for text in (runs[0], apptainer["post"]):
        assert text.index("apt-get update") < text.index("apt-get install")
        assert "rm -rf /var/lib/apt/lists/*" in text


def test_a_change_of_code_keeps_the_layer_of_packages(docker):
    words = [f"{word} {text}" for word, text in docker]
    lock = next(n for n, text in enumerate(words) if "--requirement requirements.lock" in text)
    code = next(n for n, text in enumerate(words) if text.startswith("COPY src"))
    assert lock < code


def test_all_that_is_copied_is_there_and_sent_to_the_builder(repository, docker, apptainer):
    files = [line.split()[0] for line in apptainer["files"].splitlines() if line.strip()]
    ignored = (repository / FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    for name in (*copied(docker), *files):
        assert (repository / name).exists(), name
    for name in copied(docker):
        assert f"!{name}" in ignored, name
    tracked = subprocess.run(
        ["git", "ls-files", "--", *copied(docker), *files],
        cwd=repository,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in (*copied(docker), *files):
        assert any(path == name or path.startswith(f"{name}/") for path in tracked), name


def test_a_clone_is_in_the_image(docker):
    assert set(PARTS) <= set(copied(docker))


@pytest.mark.workflow
def test_what_is_copied_can_be_installed_and_planned(repository, docker, tmp_path):
    """The recipe's own steps, without the download of the packages."""
    image = tmp_path / "vrtspike"
    image.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in copied(docker):
        if (repository / name).is_dir():
            shutil.copytree(repository / name, image / name, ignore=ignore)
        else:
            shutil.copy(repository / name, image / name)
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    done = subprocess.run(
        [sys.executable, *build, str(tmp_path), "."], cwd=image, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("vrtspike-*.whl"))
    assert any(job.rule == "train" for job in Project(image).plan("train_demo"))


def test_the_image_of_the_workflow_is_what_the_recipe_makes(repository):
    text = (repository / "workflow/Snakefile").read_text()
    image = re.search(r'^container: "(.*)"$', text, re.MULTILINE)[1]
    recipe = (repository / FOLDER / "vrtspike.def").read_text()
    assert recipe.startswith(f"# apptainer build {image} {FOLDER}/vrtspike.def\n")


def test_the_catalogue_finds_what_it_asks_for(repository):
    """A Snakefile, a description of the configuration, and this file in its form."""
    usage = YAML(typ="safe").load((repository / ".snakemake-workflow-catalog.yml").read_text())
    assert set(usage["usage"]) == {"mandatory-flags", "software-stack-deployment", "report"}
    stack = usage["usage"]["software-stack-deployment"]
    assert stack == {"conda": False, "apptainer": True, "apptainer+conda": False}
    # Rules name no conda environment of their own; the image is the workflow's.
    rules = "".join(path.read_text() for path in (repository / "rules").glob("*.smk"))
    assert not re.search(r"^ +conda:", rules, re.MULTILINE)
    assert (repository / "workflow/Snakefile").is_file()
    assert (repository / "config/README.md").is_file()
