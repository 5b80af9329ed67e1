"""pyproject.toml, both locks and environment.yml name the same packages."""

from __future__ import annotations

import re
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import vrtspike
from tests.helpers.concurrency import run_python
from tests.repository.wheels import copy_project
from vrtspike.runs.named_models import BUNDLED_NAMES, bundled_folder


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


LOCKS = ("requirements.lock", "requirements-lowest.lock")


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
        str(pin.specifier).removeprefix("==")
        for pin in requirements(lock)
        if canonicalize_name(pin.name) == canonicalize_name(name)
    ]


def test_a_lock_holds_exact_versions_and_no_addresses(lock):
    assert "://" not in lock.read_text()
    for requirement in requirements(lock):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement


def test_every_requirement_is_locked_at_an_allowed_version(project, lock):
    wanted = [Requirement(line) for line in project["dependencies"]]
    for name, group in project["optional-dependencies"].items():
        # The executors and onnx ask for newer packages than the lowest allowed; the tests of
        # models, training and data do without them.
        # Those of pyiqa, a second OpenCV among them, and of a Jupyter server belong into no one's
        # environment unasked.
        if name in ("quality", "notebook"):
            continue
        if not (name in ("slurm", "generic", "onnx", "hub") and "lowest" in lock.name):
            wanted += [Requirement(line) for line in group]
    wanted = [requirement for requirement in wanted if requirement.name != project["name"]]
    for requirement in wanted:
        pins = versions(lock, requirement.name)
        assert pins, f"{requirement.name} is not in {lock.name}; run: make lock"
        for version in pins:
            assert requirement.specifier.contains(version), f"{version}: {requirement}"


def test_the_lowest_lock_has_the_lowest_that_is_allowed(repository, project):
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["train"], *extras["workflow"]]
    lowest = {
        requirement.name: min((part.version for part in requirement.specifier), key=Version)
        for requirement in map(Requirement, lines)
        if requirement.specifier
    }
    lock = repository / "requirements-lowest.lock"
    for name in ("snakemake", "torch", "torchvision"):
        (version,) = versions(lock, name)
        assert version.startswith(f"{lowest[name]}."), name
    for wanted in requirements(repository / "requirements-lowest.in"):
        (version,) = versions(lock, wanted.name)
        assert wanted.specifier.contains(version), wanted


def test_the_stated_pythons_are_those_that_may_install(project):
    stated = [
        text.rpartition(" ")[2]
        for text in project["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", text)
    ]
    assert stated
    assert f">={min(stated, key=Version)}" == project["requires-python"]


PACKED = ("README.md", "run.json", "settings.json", "statistics.json", "weights.safetensors")
WORKFLOW = ("config/examples", "config/presets", "rules", "scripts", "workflow")
BUILD = "from setuptools.build_meta import build_{0}; print(build_{0}({1!r}))"
"""Without network: setuptools of this environment, where a tool would fetch its own."""
LEFT = (
    "build/lib/vrtspike/removed.py",  # by the build of an earlier version
    "scripts/__pycache__/train.cpython-311.pyc",
    "tests/test_packaging.py",
    "workflow/containers/vrtspike.sif",
)
"""Files of a clone that belong into no distribution."""


def build(kind: str, project: Path, folder: Path) -> Path:
    """Build a distribution of the project, ``wheel`` or ``sdist``, into a folder."""
    done = run_python("-c", BUILD.format(kind, str(folder)), cwd=project)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def packed(wheel: Path) -> dict[str, bytes]:
    """Contents of a wheel's files by name."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    """A copy of the project with files that its use leaves."""
    folder = tmp_path_factory.mktemp("clone")
    copy_project(repository, folder)
    for name in LEFT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    """The wheel that is built in the clone."""
    return build("wheel", clone, tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_a_wheel_holds_the_packages_own_weights_and_the_workflow(wheel, repository):
    expected = {
        "vrtspike/commands/new_project/Snakefile",
        "vrtspike/commands/new_project/gitignore",
    }
    package = repository / "src/vrtspike"
    for name in BUNDLED_NAMES:
        folder = bundled_folder(name).relative_to(package)
        expected |= {f"vrtspike/{folder / file}" for file in PACKED}
    for name in WORKFLOW:
        expected |= {
            f"vrtspike_workflow/{path.relative_to(repository)}"
            for path in (repository / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    names = set(packed(wheel))
    assert expected <= names
    assert not any(Path(left).name in Path(name).name for name in names for left in LEFT)
    assert wheel.name == f"vrtspike-{vrtspike.__version__}-py3-none-any.whl"


@pytest.mark.slow
def test_a_wheel_of_the_source_distribution_is_that_of_the_clone(wheel, clone, tmp_path):
    source = build("sdist", clone, tmp_path)
    assert source.name == f"vrtspike-{vrtspike.__version__}.tar.gz"
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    assert [name for name in LEFT if (unpacked / name).exists()] == []
    assert packed(build("wheel", unpacked, tmp_path)) == packed(wheel)


def test_the_version_stands_in_one_place_and_is_cited(repository, project):
    assert "version" not in project
    citation = (repository / "CITATION.cff").read_text()
    assert f"\nversion: {vrtspike.__version__}\n" in citation
