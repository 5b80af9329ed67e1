"""The layers of docs/architecture.md against every import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vrtspike.config.problems import PROBLEMS


def layers(page: str, heading: str) -> dict[str, int]:
    """Packages and their layers in the table under a heading."""
    match = re.search(r"(^\|.*\n)+", page.split(heading, 1)[1], re.MULTILINE)
    assert match is not None
    table = match[0]
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", table, re.MULTILINE)
    return {part: int(layer) for layer, parts in rows for part in re.findall(r"`(\w+)`", parts)}


def imports(source: Path) -> set[str]:
    """Dotted names that a file imports from the package, without the package's own."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "vrtspike":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vrtspike."):
            names |= {f"{node.module.removeprefix('vrtspike.')}.{a.name}" for a in node.names}
    return names


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs/architecture.md").read_text()


def check(package: Path, prefix: str, numbers: dict[str, int]) -> list[str]:
    """Imports of the parts of a package from their own layer or above."""
    faults, used = [], set()
    for source in sorted(package.rglob("*.py")):
        part = source.relative_to(package).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        used.add(part)
        for name in imports(source):
            if prefix and not name.startswith(prefix):
                continue
            other = name.removeprefix(prefix).split(".")[0]
            if other != part and numbers[other] >= numbers[part]:
                faults.append(f"{source.relative_to(package)}: imports {name}")
    assert used == set(numbers)
    return faults


def test_no_package_imports_from_above(repository, page):
    numbers = layers(page, "## Layers")
    assert check(repository / "src/vrtspike", "", numbers) == []


def test_only_commands_import_a_problem(repository, page):
    """Others ask the registry (:mod:`vrtspike.config.problems`)."""
    package = repository / "src/vrtspike"
    problems = set(PROBLEMS)
    for part in layers(page, "## Layers").keys() - problems - {"commands"}:
        for source in [*(package / part).rglob("*.py"), *package.glob(f"{part}.py")]:
            packages = {name.split(".")[0] for name in imports(source)}
            assert not packages & problems, source


def test_no_package_of_the_data_imports_from_above(repository, page):
    numbers = layers(page, "| layer | packages of `data`")
    assert check(repository / "src/vrtspike/data", "data.", numbers) == []
