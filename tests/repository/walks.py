"""The walks of docs/first-changes.md, taken in a copy of the project as a newcomer would."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Block:
    """A block of code of a walk.

    Attributes:
        path: the file it belongs to.
        place: where in it, in words such as ``in LOSSES``; empty for a whole new file.
        text: the code.
    """

    path: str
    place: str
    text: str

    def write(self, folder: Path) -> None:
        """Put the block into a copy of the project."""
        file = folder / self.path
        if not self.place:
            assert not file.exists(), f"{self.path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text, encoding="utf-8")
            return
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        way, _, name = self.place.partition(" ")
        if way == "in":
            imports, entry = self._parts()
            lines[_entries(lines, name) : _entries(lines, name)] = [f"{entry}\n"]
            if imports:
                lines[_first_import(lines) : _first_import(lines)] = imports
        elif way == "above":
            first = _statement(lines, name).lineno - 1
            lines[first:first] = [self.text, "\n\n"]
        else:
            assert self.place == "after the other stages"
            last = max(n for n, line in enumerate(lines) if line.startswith("include:"))
            lines.insert(last + 1, self.text)
        file.write_text("".join(lines), encoding="utf-8")

    def _parts(self) -> tuple[list[str], str]:
        """The imports at the left margin, and the indented entry."""
        lines = [line for line in self.text.splitlines() if line]
        (entry,) = [line for line in lines if line.startswith(" ")]
        return [f"{line}\n" for line in lines if not line.startswith(" ")], entry


def read_walks(page: Path) -> dict[str, list[Block]]:
    """The blocks of every walk that say where they belong, by the walk's heading."""
    walks = {}
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        blocks = []
        for indented in re.findall(r"^ *```\w*\n.*?^ *```$", section, re.MULTILINE | re.DOTALL):
            _, head, *text = textwrap.dedent(indented).splitlines(keepends=True)[:-1]
            where = re.fullmatch(
                r"# ([\w./]+\.(?:py|smk|yaml)|workflow/Snakefile)(?:, (.*))?\n", head
            )
            if where is not None:
                blocks.append(Block(where[1], where[2] or "", "".join(text)))
        if blocks:
            walks[title] = blocks
    return walks


def _statement(lines: list[str], name: str) -> ast.stmt:
    """The statement at the top of a module that defines a name."""
    for node in ast.parse("".join(lines)).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        named = getattr(node, "name", None) or getattr(targets[0], "id", None)
        if named == name:
            return node
    raise AssertionError(f"no {name}")


def _entries(lines: list[str], name: str) -> int:
    """The line of a table's first entry, or the one after a class's last key."""
    node = _statement(lines, name)
    if isinstance(node, ast.ClassDef):
        keys = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        assert keys[-1].end_lineno is not None
        return keys[-1].end_lineno
    first = node.lineno - 1
    return next(n for n in range(first, len(lines)) if lines[n].endswith(",\n"))


def _first_import(lines: list[str]) -> int:
    return next(n for n, line in enumerate(lines) if line.startswith(("from vrt", "import vrt")))
