"""The words of docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

QUESTIONS = ("What", "Where", "How", "Who")


def docstrings(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of all docstrings of a file, of constants and attributes, too."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text.strip()


@pytest.mark.parametrize("folder", ["src", "scripts", "workflow", "benchmarks", "tests"])
def test_docstrings_do_not_begin_with_a_question_word(repository, folder):
    questions = [
        f"{source.relative_to(repository)}:{line}: {text.splitlines()[0]}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, text in docstrings(source)
        if text.split()[:1] and text.split()[0] in QUESTIONS
    ]
    assert questions == []
