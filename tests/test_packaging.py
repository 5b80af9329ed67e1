"""pyproject.toml, requirements.lock and environment.yml name the same packages."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def locked(repository):
    """Every locked requirement; a package may stand there once per Python version."""
    lines = (repository / "requirements.lock").read_text().splitlines()
    return [Requirement(line) for line in lines if line.strip()]


def test_the_lock_holds_exact_versions_and_no_addresses(repository, locked):
    assert "://" not in (repository / "requirements.lock").read_text()
    for requirement in locked:
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement


def test_every_requirement_is_locked_at_an_allowed_version(project, locked):
    wanted = [Requirement(line) for line in project["dependencies"]]
    for group in project["optional-dependencies"].values():
        wanted += [Requirement(line) for line in group]
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        versions = [
            str(lock.specifier).removeprefix("==")
            for lock in locked
            if canonicalize_name(lock.name) == name
        ]
        assert versions, f"{name} is not in requirements.lock; run: make lock"
        for version in versions:
            assert requirement.specifier.contains(version), f"{name} {version}: {requirement}"


def test_conda_installs_the_lock(repository, project):
    environment = YAML(typ="safe").load(repository / "environment.yml")
    assert f"python{project['requires-python']}" in environment["dependencies"]
    (pip,) = [part["pip"] for part in environment["dependencies"] if isinstance(part, dict)]
    assert "--requirement requirements.lock" in pip
    assert "--editable ." in pip
