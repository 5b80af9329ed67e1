"""Recipes of containers, as far as they can be tried without an engine; the catalogue's file."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.helpers.concurrency import run_python
from tests.workflow.project import PARTS, Project

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
    """The packages that a recipe installs."""
    commands = re.findall(r"(?:apt-get install|pip install) [^&\n]+", text)
    return [" ".join(line.split()) for line in commands]


def test_the_python_is_one_that_is_tried(repository, docker, apptainer):
    (image,) = [text for word, text in docker if word == "FROM"]
    name, tag = image.split(":")
    tried = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["classifiers"]
    assert name == "python"
    assert f"Programming Language :: Python :: {tag.split('-')[0]}" in tried
    # Both are made from the same image, with the same packages, in the same way.
    assert f"From: {image}\n" in apptainer[""]


def test_both_recipes_install_the_same_from_the_lock(docker, apptainer):
    runs = [text for word, text in docker if word == "RUN"]
    assert installs("\n".join(runs)) == installs(apptainer["post"])
    system, packages, project = installs(apptainer["post"])
    # A compiler for Triton, and git for what a result is of.
    assert {"gcc", "libc6-dev", "git"} <= set(system.split())
    assert packages.endswith("--requirement requirements.lock")
    assert "--no-deps" in project
    assert ("ENV", "PYTHONPATH=src") in docker


def test_all_that_is_copied_is_there_and_sent_to_the_builder(repository, docker, apptainer):
    files = [line.split()[0] for line in apptainer["files"].splitlines() if line.strip()]
    ignored = (repository / FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    for name in (*copied(docker), *files):
        assert (repository / name).exists(), name
    for name in copied(docker):
        assert f"!{name}" in ignored, name
    assert set(PARTS) <= set(copied(docker))


@pytest.mark.endurance
@pytest.mark.workflow
def test_copied_files_can_be_installed_and_planned(repository, docker, tmp_path):
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
    done = run_python(*build, tmp_path, ".", cwd=image)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("vrtspike-*.whl"))
    assert "train demo" in Project(image).why("train_demo")
