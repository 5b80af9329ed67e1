"""Lists of attributes in docstrings name the attributes of their classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SECTION = re.compile(r"^Attributes:\n((?:    .*\n?|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
"""One or more attributes at the beginning of a description."""
SETTINGS = {"RunSettings"}
"""Schemas: their keys have descriptions of their own."""


def described_classes(repository: Path) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """Classes whose docstring lists attributes, each with the listed names."""
    for folder in ("src", "scripts", "benchmarks"):
        for source in sorted((repository / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
                text = ast.get_docstring(node) if isinstance(node, ast.ClassDef) else None
                section = SECTION.search(text or "")
                if section is not None:
                    listed = {n for names in ENTRY.findall(section[1]) for n in names.split(", ")}
                    yield node, listed


def fields(node: ast.ClassDef) -> set[str]:
    """Public fields that the body of a class annotates."""
    names = {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    return {name for name in names if not name.startswith("_")}


def definitions(node: ast.ClassDef) -> set[str]:
    """Fields, methods and attributes of ``self`` that the body of a class defines."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            names.add(part.name)
        elif isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            names.add(part.id if isinstance(part, ast.Name) else part.attr)
    return names


def test_lists_of_attributes_are_complete(repository):
    missing = [
        f"{node.name}.{name}"
        for node, listed in described_classes(repository)
        if node.name not in SETTINGS
        for name in sorted(fields(node) - listed)
    ]
    assert missing == []


def test_listed_attributes_exist(repository):
    """In classes without a base, whose attributes might be those of the base."""
    without_base = {"NamedTuple", "TypedDict", "Protocol"}
    unknown = [
        f"{node.name}.{name}"
        for node, listed in described_classes(repository)
        if {ast.unparse(base) for base in node.bases} <= without_base
        for name in sorted(listed - definitions(node))
    ]
    assert unknown == []
