"""The words of docstrings and of variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("src", "scripts", "workflow", "benchmarks", "tests")
QUESTIONS = ("What", "Where", "How", "Who")
NO_NOUNS = frozenset(
    ("asked", "each", "found", "given", "known", "least", "most", "own", "said", "seen", "told")
)
"""Names that tell a reader nothing about a value."""


def docstrings(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of all docstrings of a file, of constants and attributes, too."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text.strip()


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_do_not_begin_with_a_question_word(repository, folder):
    questions = [
        f"{source.relative_to(repository)}:{line}: {text.splitlines()[0]}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, text in docstrings(source)
        if text.split()[:1] and text.split()[0] in QUESTIONS
    ]
    assert questions == []


CODE = re.compile(r"``.*?``|:\w+:`[^`]*`|'\w+'|>>> .*|^ *\w+(?:, \w+)*: ", re.MULTILINE)
"""Parts of a docstring that are names: code, references, quoted values, examples, arguments."""


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_prose_says_data_set(repository, folder):
    """``dataset`` is for names: one spelling for each."""
    others = [
        f"{source.relative_to(repository)}:{line}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, text in docstrings(source)
        if re.search(r"(?<![\w./-])[dD]atasets?(?![\w.])", CODE.sub("", text))
    ]
    assert others == []


DRAWING = ("vrtspike/plotting/", "vrtspike/paper_figures/", "vrtspike/commands/figures.py")
"""Modules whose figures are pictures."""


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_figures_are_pictures(repository, folder):
    """Numbers are metrics, measurements, results or values."""
    others = [
        f"{source.relative_to(repository)}:{line}"
        for source in sorted((repository / folder).rglob("*.py"))
        if not any(part in source.as_posix() for part in DRAWING)
        for line, text in docstrings(source)
        if re.search(r"\bfigures?\b", CODE.sub("", text), re.IGNORECASE)
    ]
    assert others == []


def test_every_file_of_tests_says_its_subject(repository):
    silent = [
        str(source.relative_to(repository))
        for source in sorted((repository / "tests").rglob("*.py"))
        if source.stat().st_size and ast.get_docstring(ast.parse(source.read_text())) is None
    ]
    assert silent == []


def variables(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and names of all variables and parameters that a file binds."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@pytest.mark.parametrize("folder", FOLDERS)
def test_variables_are_nouns(repository, folder):
    others = [
        f"{source.relative_to(repository)}:{line}: {name}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, name in variables(source)
        if name in NO_NOUNS
    ]
    assert others == []


ARGUMENT = re.compile(r"^ *(\w+): (.*(?:\n {12,}\S.*)*)", re.MULTILINE)
"""An argument of a docstring, and its description."""
FILLERS = frozenset(("a", "all", "an", "each", "for", "its", "of", "one", "the", "their"))


def stem(word: str) -> str:
    """A word without the ending of a plural."""
    return word.lower().removesuffix("s")


def repeated_names(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of arguments whose description has no other word than the name.

    Attributes may have such a description, so that their lists are complete.
    """
    headings = r"^ *(?:Returns|Raises|Yields|Attributes):\n"
    for line, text in docstrings(source):
        for section in re.split(r"^ *Args:\n", text, flags=re.MULTILINE)[1:]:
            entries = re.split(headings, section, flags=re.MULTILINE)[0]
            for name, description in ARGUMENT.findall(entries):
                words = {stem(word) for word in re.findall(r"\w+", description)}
                if words <= {stem(word) for word in name.split("_")} | {stem(w) for w in FILLERS}:
                    yield line, f"{name}: {description}"


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_descriptions_of_arguments_say_more_than_their_names(repository, folder):
    repeated = [
        f"{source.relative_to(repository)}:{line}: {text}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, text in repeated_names(source)
    ]
    assert repeated == []


ATTRIBUTES = re.compile(r"^Attributes:\n((?:    .*\n?|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
"""One or more attributes at the beginning of a description."""
SETTINGS = {"RunSettings"}
"""Schemas: their keys have descriptions of their own."""


def described_classes(source: Path) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """Classes whose docstring lists attributes, each with the listed names."""
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.ClassDef):
            continue
        section = ATTRIBUTES.search(ast.get_docstring(node) or "")
        if section is not None:
            yield node, {name for names in ENTRY.findall(section[1]) for name in names.split(", ")}


def unlisted_attributes(source: Path) -> Iterator[str]:
    """Fields of records whose docstring lists some of their attributes, but not these."""
    for node, listed in described_classes(source):
        if node.name in SETTINGS:
            continue
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                if name not in listed and not name.startswith("_"):
                    yield f"{node.name}.{name}"


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_lists_of_attributes_are_complete(repository, folder):
    unlisted = [
        f"{source.relative_to(repository)}: {name}"
        for source in sorted((repository / folder).rglob("*.py"))
        for name in unlisted_attributes(source)
    ]
    assert unlisted == []


def defined_names(node: ast.ClassDef) -> set[str]:
    """Fields, methods and attributes of ``self`` that the body of a class defines."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            names.add(part.name)
        elif isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            names.add(part.id if isinstance(part, ast.Name) else part.attr)
    return names


def missing_attributes(source: Path) -> Iterator[str]:
    """Attributes that a docstring lists and its class, without a base, does not have."""
    for node, listed in described_classes(source):
        bases = {ast.unparse(base) for base in node.bases}
        if bases <= {"NamedTuple", "TypedDict", "Protocol"}:
            for name in sorted(listed - defined_names(node)):
                yield f"{node.name}.{name}"


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_listed_attributes_exist(repository, folder):
    missing = [
        f"{source.relative_to(repository)}: {name}"
        for source in sorted((repository / folder).rglob("*.py"))
        for name in missing_attributes(source)
    ]
    assert missing == []


BRITISH = re.compile(
    "colour|grey|neighbour|centre|(?:normal|recogn|standard|optim|initial)ise", re.IGNORECASE
)
KEYS = frozenset(("NEIGHBOURS", "NEIGHBOUR_BINS", "colours"))
"""Keys of settings and of stored data, which stay as they are."""


def identifiers(source: Path) -> Iterator[tuple[int, str]]:
    """Lines and names of everything that a file binds or uses."""
    for node in ast.walk(ast.parse(source.read_text())):
        for field in ("name", "id", "arg", "attr"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks"])
def test_names_are_american(repository, folder):
    """As in PyTorch; prose is British."""
    others = [
        f"{source.relative_to(repository)}:{line}: {name}"
        for source in sorted((repository / folder).rglob("*.py"))
        for line, name in identifiers(source)
        if BRITISH.search(name) and name not in KEYS
    ]
    assert others == []
