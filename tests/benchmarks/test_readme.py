"""The table of benchmarks/README.md: every program, with files and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NOT_KEPT = {"results/gpu_<device>.json"}
"""Result files with a variable name, and of programs that have not been run."""


@pytest.fixture(scope="module")
def folder(repository) -> Path:
    return repository / "benchmarks"


@pytest.fixture(scope="module")
def rows(folder) -> list[list[str]]:
    """Question, command, result file and page of each program."""
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    table = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in table[1:]]


def test_the_table_lists_every_program(folder, rows):
    guard = 'if __name__ == "__main__":'
    programs = [file.name for file in folder.glob("*.py") if f"\n{guard}\n" in file.read_text()]
    listed = [re.match(r"`python benchmarks/(\w+\.py)", command)[1] for _, command, _, _ in rows]
    assert sorted(listed) == sorted(programs)


def test_options_of_the_commands_exist(folder, rows):
    experiments = (folder / "experiments.py").read_text()
    for _, command, _, _ in rows:
        _, program, *words = command.strip("`").split()
        source = (folder.parent / program).read_text()
        if "run_experiment" in source:
            source = experiments
        for word in words:
            if word.startswith("--"):
                assert f'"{word}"' in source, command


def test_results_are_where_the_table_says(folder, rows):
    files = {file for row in rows for file in re.findall(r"`([^`]+)`", row[2])}
    assert {file for file in files if not (folder / file).is_file()} == NOT_KEPT


def test_the_pages_exist_and_name_the_program_or_its_result(folder, rows):
    for _, command, result, page in rows:
        program = command.strip("`").split()[1].removeprefix("benchmarks/")
        picture = Path(result.strip("`")).name
        for target in re.findall(r"\]\(([^)]+)\)", page):
            text = (folder / target).read_text(encoding="utf-8")
            assert program in text or (picture and picture in text), (program, target)
