"""Commands of the pages: each is run or planned by a test, or has a reason against it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.raw.published import PUBLISHED
from tests.data.scenes import film
from vrtspike.io.images import write_png

PLANNED = "tests/workflow/test_documented.py"
CALLS = "tests/repository/test_documented_calls.py"
TESTED = {
    r"make demo": ".ci/run",
    r"make general": "tests/workflow/test_general.py",
    r"make setup && \. \.venv/bin/activate": ".ci/run",
    r"make docs": ".ci/run",
    r"make format": "tests/repository/test_first_changes.py",
    r"snakemake .*(_waves|PRESETS=waves)": "tests/workflow/test_third_task.py",
    r"snakemake --cores 2 sst_demo": "tests/workflow/test_sst.py",
    r"snakemake .*": PLANNED,
    r"vrtspike .*": CALLS,
    r"python scripts/config_reference\.py": "tests/config/test_reference.py",
    r"python scripts/simulate\.py .*": "tests/repository/test_pages.py",
    r"(python|torchrun --nproc-per-node 2) fit_example\.py": "tests/training/test_fit.py",
}
"""Beginnings of commands, as regular expressions, and where they are run or planned."""
NOT_TESTED = {
    r"pre-commit install": "a program that the project does not install",
    r"docker run .*|apptainer exec .*": "containers; tests/workflow/test_containers.py reads them",
    r"nvidia-smi .*": "a GPU's driver",
    r"(python3 -m venv|pip install|python -c) .*": "another PyTorch, which is downloaded",
    r"mkdir -p weights": "beside a download",
    r"curl .*": "a download",
}
WITH_CORES = {"--cores", "-n", "--profile", "--lint", "--list"}
"""Options of Snakemake with which a command runs: a number of cores, or none is needed."""


def pages(repository: Path) -> list[Path]:
    others = ("README.md", "CONTRIBUTING.md", "config/README.md", "workflow/profiles/README.md")
    return [*(repository / name for name in others), *sorted((repository / "docs").glob("*.md"))]


def commands(page: Path) -> Iterator[str]:
    """The commands in the shell blocks of a page."""
    programs = r"(make|snakemake|vrtspike|python3?|pip|pre-commit|docker|apptainer|torchrun|curl|"
    programs += r"nvidia-smi|mkdir)\b"
    text = page.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "bash", "console"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            command = re.split(r"\s+#", line.removeprefix("$ "))[0].strip()
            if re.match(programs, command):
                yield command


def test_every_command_is_tested_or_has_a_reason(repository):
    documented = [(page, command) for page in pages(repository) for command in commands(page)]
    assert len(documented) > 50
    without = []
    for page, command in documented:
        if not any(re.fullmatch(pattern, command) for pattern in [*TESTED, *NOT_TESTED]):
            without.append(f"{page.name}: {command}")
    assert without == []
    for place in TESTED.values():
        assert (repository / place).is_file(), place


def test_snakemake_commands_name_their_cores(repository):
    """Without ``--cores``, Snakemake refuses to run jobs on this machine."""
    files = [*pages(repository), *(repository / "docs/zh").glob("*.md")]
    files.append(repository / "README.zh-CN.md")
    refused = []
    for page in files:
        inline = re.findall(r"`(snakemake [^`]+)`", page.read_text(encoding="utf-8"))
        calls = [*inline, *(call for call in commands(page) if call.startswith("snakemake "))]
        without = [call for call in calls if not WITH_CORES & set(call.split())]
        refused += [f"{page.name}: {call}" for call in without]
    assert refused == []


def test_every_page_with_snakemake_commands_is_planned(repository):
    planned = (repository / PLANNED).read_text(encoding="utf-8")
    # Their commands are run by tests of their own, or stand on a page that is planned, too.
    elsewhere = (
        "docs/extending.md",
        "docs/project.md",
        "docs/sst.md",
        "docs/training.md",
        "workflow/profiles/README.md",
    )
    for page in pages(repository):
        name = str(page.relative_to(repository))
        plans = any(command.startswith("snakemake") for command in commands(page))
        if plans and name not in elsewhere:
            assert f'"{name}"' in planned, name


def test_first_changes_begin_in_files_that_exist(repository):
    page = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("\n## Where to begin\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 10
    for subject, code, test, _ in rows:
        files = re.findall(r"`([\w/]+/[\w/.]+)`", code)
        tests = re.findall(r"`(tests/[\w/.]+)`", test)
        assert tests, subject
        assert [file for file in [*files, *tests] if not (repository / file).is_file()] == []


@pytest.fixture
def folder(repository, tmp_path, monkeypatch):
    """The project's folder with the frames that docs/data-formats.md names."""
    (tmp_path / "scripts").symlink_to(repository / "scripts")
    for place in (
        "sharp_sequence",
        "GOPRO_Large_all/train/GOPR0372_07_00",
        "GOPRO_Large_all/test/GOPR0384_11_00",
    ):
        for number, frame in enumerate(film(1, 16, 64, 96, speed=1)):
            write_png(tmp_path / place / f"{number:06d}.png", frame)
    PUBLISHED["bsd"].write(tmp_path / "BSD_3ms24ms")
    shutil.rmtree(tmp_path / "BSD_3ms24ms/spikes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulations(page: Path) -> list[str]:
    """The calls of ``simulate.py`` on a page, in blocks and between backticks."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    calls = re.findall(r"^python (scripts/simulate\.py [^\n]*)", text, re.MULTILINE)
    pattern = r"`(?:python )?(scripts/simulate\.py --(?:source|pairs)[^`]*)`"
    return [" ".join(call.split()) for call in [*calls, *re.findall(pattern, text)]]


def test_documented_simulations_make_sequences(repository, folder):
    calls = simulations(repository / "docs/data-formats.md")
    assert len(calls) == 3
    assert simulations(repository / "docs/zh/data-formats.md") == calls
    for call in calls:
        done = subprocess.run([sys.executable, *call.split()], capture_output=True, text=True)
        assert done.returncode == 0, f"{call}\n{done.stderr}"
    made = {path.parent.relative_to(folder) for path in folder.glob("data/*/*/*/spike")}
    assert {str(path) for path in made} >= {
        "data/simulated/train/sharp_sequence",
        "data/simulated/train/GOPR0372_07_00",
        "data/simulated/test/GOPR0384_11_00",
    }
    assert len(list(folder.glob("data/bsd_spikes/*/a/*"))) > 0
