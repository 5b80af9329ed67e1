"""The floors of docs/architecture.md against every import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vrtspike.problems import PROBLEMS


def floors(page: str, heading: str) -> dict[str, int]:
    """Rooms and their floors in the table under a heading."""
    found = re.search(r"(^\|.*\n)+", page.split(heading, 1)[1], re.MULTILINE)
    assert found is not None
    table = found[0]
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", table, re.MULTILINE)
    return {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}


PROTOCOL = "problems.py"
"""Says what problems bring, in the types of rooms above it; it imports none of them to run."""


def imports(source: Path) -> set[str]:
    """Dotted names that a file imports from the package, without the package's own."""
    names = set()
    tree = ast.parse(source.read_text())
    if source.name == PROTOCOL:
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "vrtspike":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vrtspike."):
            names |= {f"{node.module.removeprefix('vrtspike.')}.{a.name}" for a in node.names}
    return names


@pytest.fixture(scope="module")
def page(repository) -> str:
    return (repository / "docs/architecture.md").read_text()


def check(package: Path, prefix: str, known: dict[str, int]) -> list[str]:
    """Imports of a package's rooms from their own floor or above."""
    faults, seen = [], set()
    for source in sorted(package.rglob("*.py")):
        room = source.relative_to(package).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        seen.add(room)
        for name in imports(source):
            if prefix and not name.startswith(prefix):
                continue
            other = name.removeprefix(prefix).split(".")[0]
            if other != room and known[other] >= known[room]:
                faults.append(f"{source.relative_to(package)}: imports {name}")
    assert seen == set(known)
    return faults


def test_no_room_imports_from_above(repository, page):
    known = floors(page, "## Floors")
    assert check(repository / "src/vrtspike", "", known) == []


def test_only_what_looks_at_a_machine_imports_a_problem(repository, page):
    """A table names them (:mod:`vrtspike.problems`)."""
    package = repository / "src/vrtspike"
    problems = {module.split(".")[1] for module in PROBLEMS.values()}
    assert problems == {"deblurring", "sst"}
    for room in floors(page, "## Floors").keys() - problems - {"machine", "commands"}:
        for source in [*(package / room).rglob("*.py"), *package.glob(f"{room}.py")]:
            found = {name.split(".")[0] for name in imports(source)}
            assert not found & problems, source


@pytest.mark.parametrize("room", ["deblurring", "deblurring.data"])
def test_no_room_within_a_room_imports_from_above(repository, page, room):
    known = floors(page, f"| floor | rooms of `{room.rpartition('.')[2]}`")
    package = repository / "src/vrtspike" / room.replace(".", "/")
    assert check(package, f"{room}.", known) == []


def test_an_import_from_above_is_found(tmp_path):
    (tmp_path / "low.py").write_text("from vrtspike.high import f\n")
    (tmp_path / "high.py").write_text("from vrtspike.low import g\n")
    known = {"low": 1, "high": 2}
    assert check(tmp_path, "", known) == ["low.py: imports high.f"]


def test_the_rules_share_little(repository):
    lines = (repository / "rules/common.smk").read_text().splitlines()
    assert len(lines) < 150
    for source in (repository / "rules").rglob("*.smk"):
        assert len(source.read_text().splitlines()) < 150, source
