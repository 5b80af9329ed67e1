"""pyproject.toml, both locks and environment.yml name the same packages."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from ruamel.yaml import YAML


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


LOCKS = ("requirements.lock", "requirements-floor.lock")


def requirements(path):
    """Every requirement; a package may stand there once per Python version."""
    lines = path.read_text().splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module", params=LOCKS)
def lock(repository, request):
    return repository / request.param


def versions(lock, name):
    """All versions of a package in a lock."""
    return [
        str(found.specifier).removeprefix("==")
        for found in requirements(lock)
        if canonicalize_name(found.name) == canonicalize_name(name)
    ]


def test_a_lock_holds_exact_versions_and_no_addresses(lock):
    assert "://" not in lock.read_text()
    for requirement in requirements(lock):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement


def test_every_requirement_is_locked_at_an_allowed_version(project, lock):
    wanted = [Requirement(line) for line in project["dependencies"]]
    for name, group in project["optional-dependencies"].items():
        # What hands jobs to a cluster asks for a newer NumPy than the floor allows; the tests of
        # models, training and data do without.
        if not (name in ("slurm", "generic") and "floor" in lock.name):
            wanted += [Requirement(line) for line in group]
    for requirement in wanted:
        found = versions(lock, requirement.name)
        assert found, f"{requirement.name} is not in {lock.name}; run: make lock"
        for version in found:
            assert requirement.specifier.contains(version), f"{version}: {requirement}"


def test_the_floor_is_the_lowest_that_is_allowed(repository, project):
    lowest = {
        requirement.name: min(str(part.version) for part in requirement.specifier)
        for requirement in map(Requirement, project["dependencies"])
    }
    floor = repository / "requirements-floor.lock"
    for name in ("torch", "torchvision"):
        (version,) = versions(floor, name)
        assert version.startswith(f"{lowest[name]}."), name
    for wanted in requirements(repository / "requirements-floor.in"):
        (version,) = versions(floor, wanted.name)
        assert wanted.specifier.contains(version), wanted


def test_the_stated_pythons_are_those_that_may_install(project):
    stated = [
        text.rpartition(" ")[2]
        for text in project["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", text)
    ]
    assert stated
    assert f">={min(stated, key=Version)}" == project["requires-python"]


def test_conda_installs_the_lock(repository, project):
    environment = YAML(typ="safe").load(repository / "environment.yml")
    assert f"python{project['requires-python']}" in environment["dependencies"]
    (pip,) = [part["pip"] for part in environment["dependencies"] if isinstance(part, dict)]
    assert "--requirement requirements.lock" in pip
    assert "--editable ." in pip
