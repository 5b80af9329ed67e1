"""The `vrtspike` calls that pages show can be made: command, options and their number are right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from vrtspike.commands.main import COMMANDS, make_parser

_CALL = re.compile(r"^(?:\$ )?(vrtspike [a-z][^`\n]*)|`(vrtspike [a-z][^`]*)`", re.MULTILINE)


def calls(repository: Path) -> set[str]:
    """Every call in a block or between backticks."""
    pages = [repository / "README.md", *(repository / "docs").glob("*.md")]
    texts = [path.read_text(encoding="utf-8") for path in pages]
    names = {a or b for text in texts for a, b in _CALL.findall(text.replace("\\\n", " "))}
    return {re.split(r" +#| 2?>| \|", call)[0].strip() for call in names}


def test_documented_calls_are_accepted(repository, capsys):
    refused = []
    documented = calls(repository)
    assert len(documented) > 40
    for call in sorted(documented):
        name, *words = shlex.split(call)[1:]
        if not words or "--help" in words:
            assert name in COMMANDS, call
            continue
        try:
            make_parser().parse_args([name, *words])
        except SystemExit:
            refused.append(f"{call}: {capsys.readouterr().err.splitlines()[-1:]}")
    assert refused == []
