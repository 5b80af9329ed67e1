"""Messages that docs/troubleshooting.md quotes are those of the programs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HOLE = "…"
"""Stands where a text has a value put in."""


def text_of(node: ast.expr) -> str | None:
    """A text with holes for its values; None if the expression is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or HOLE for part in node.values)
    return None


@cache
def templates(repository: Path) -> list[str]:
    """Every text of the package and its rules."""
    messages = []
    for path in (repository / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = text_of(node) if isinstance(node, ast.expr) else None
            if text:
                messages.append(text)
    others = [*(repository / "rules").rglob("*.smk"), repository / "Makefile"]
    return [*messages, *(path.read_text(encoding="utf-8") for path in others)]


def contains(text: str, parts: list[str]) -> bool:
    """Return whether a text contains some parts, in this order."""
    for part in parts:
        _, separator, text = text.partition(part)
        if not separator:
            return False
    return True


def is_printed(message: str, repository: Path) -> bool:
    """Return whether a text of the package contains the parts of a message."""
    parts = [part for part in (part.strip() for part in message.split(HOLE)) if len(part) > 1]
    return any(contains(text, parts) for text in templates(repository))


FOREIGN = {"torch.OutOfMemoryError: CUDA out of memory"}
"""Words of other programs."""


def quoted(page: Path) -> list[str]:
    """The cells of the tables' first column that are a message and nothing else."""
    cells = re.findall(r"^\| (.*?) \|", page.read_text("utf-8"), re.MULTILINE)
    spans = [re.fullmatch(r"`([^`]+)`|`` ?(.+?) ?``", cell) for cell in cells]
    messages = [span[1] or span[2] for span in spans if span is not None]
    return [message for message in messages if " " in message and message not in FOREIGN]


@pytest.mark.parametrize("page", ["docs/troubleshooting.md", "docs/zh/troubleshooting.md"])
def test_every_quoted_message_can_be_printed(page, repository):
    messages = quoted(repository / page)
    assert len(messages) >= 10
    assert [m for m in messages if not is_printed(m, repository)] == []
