"""Names in code are American, as in PyTorch; prose is British."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

BRITISH = re.compile(
    "colour|grey|neighbour|centre|licence"
    "|(?:normal|recogn|standard|optim|initial|util|minim|summar|synchron)is[ea]",
    re.IGNORECASE,
)
KEYS = frozenset(("NEIGHBOURS", "NEIGHBOUR_BINS", "colours", "gpu_utilisation", "licence"))
"""Keys of settings, of stored data and of command lines, which stay as they are."""


def identifiers(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and names of everything that a file binds or uses."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        for field in ("name", "id", "arg", "attr"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name


def test_names_are_american(repository):
    british = [
        f"{source.relative_to(repository)}:{line}: {name}"
        for folder in ("src", "scripts", "benchmarks")
        for source in sorted((repository / folder).rglob("*.py"))
        for line, name in identifiers(source)
        if BRITISH.search(name) and name not in KEYS
    ]
    assert british == []
