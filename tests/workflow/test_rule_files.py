"""Rule files: each names the files whose functions it uses.

Snakemake reads included files into one namespace, so that a reader cannot see where a name comes
from.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from pathlib import Path

import pytest

COMMON = "common.smk"


def docstring(path: Path) -> str:
    """The docstring of a file."""
    match = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None, path
    return match[1]


def defined(path: Path) -> tuple[set[str], set[str]]:
    """The names that a file defines at its top, and those that it imports."""
    text = path.read_text(encoding="utf-8")
    names = set(re.findall(r"^(?:def )?(\w+)(?:\(| = )", text, re.MULTILINE))
    # Constants within a block.
    names |= set(re.findall(r"^ *([A-Z_]+) = ", text, re.MULTILINE))
    imported: set[str] = set()
    for statement in re.findall(r"^\s*((?:from|import) [^(\n]*(?:\([^)]*\))?)", text, re.MULTILINE):
        for node in ast.walk(ast.parse(statement.strip())):
            if isinstance(node, ast.alias):
                imported.add((node.asname or node.name).partition(".")[0])
    return names, imported


def used(path: Path) -> set[str]:
    """The names that a file uses, without attributes and keyword arguments."""
    text = path.read_text(encoding="utf-8")
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.NAME, tokenize.OP)
    ]
    names = set()
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_keyword_argument = after.string == "="
        if token.type == tokenize.NAME and before.string != "." and not is_keyword_argument:
            names.add(token.string)
    return names - set(keyword.kwlist)


@pytest.fixture(scope="module")
def files(repository) -> dict[str, Path]:
    """All rule files by their path below ``rules``."""
    rules = repository / "rules"
    paths = {path.relative_to(rules).as_posix(): path for path in rules.rglob("*.smk")}
    return {**paths, "Snakefile": repository / "workflow/Snakefile"}


def test_each_file_names_the_files_whose_functions_it_uses(files):
    definitions = {name: defined(path)[0] for name, path in files.items()}
    functions = {name for name in files if name.startswith("functions/")}
    assert {"data_source_of", "manifest_of_job"} <= definitions["functions/data.smk"]
    for name, path in files.items():
        names, imported = defined(path)
        foreign = used(path) - names - imported - definitions[COMMON]
        expected = {other for other in functions - {name} if definitions[other] & foreign}
        stated = set(re.findall(r"functions/\w+\.smk", docstring(path)))
        assert stated == expected, name


def test_each_file_imports_what_it_uses_of_the_package(files):
    definitions = {name: defined(path) for name, path in files.items()}
    shared = set().union(*(names for names, _ in definitions.values()))
    all_imported = set().union(*(imported for _, imported in definitions.values()))
    for name, path in files.items():
        missing = (used(path) & all_imported) - shared - definitions[name][1]
        assert missing == set(), name
