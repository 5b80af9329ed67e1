"""Digests of the code behind a program, blind to everything that cannot change its result.

A program is a file under ``scripts/`` and its import closure within this package: the files whose
names it uses, directly or through others. Comments, docstrings, formatting and imports under
``if TYPE_CHECKING:`` do not count; neither do the modules in :data:`NEUTRAL`, which only speak to
the user. The ``__init__`` of a package counts where a name is taken from it, not where it is merely
passed on the way to a submodule: packages here do nothing when they are imported.

Imports by computed names (``importlib.import_module``) are not seen.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import vrtspike
from vrtspike.files import json_digest

PACKAGE = "vrtspike"
NEUTRAL = frozenset({"vrtspike.cli", "vrtspike.errors"})
"""Modules that report to the user and compute nothing; a package name stands for all in it."""

_SOURCES = Path(vrtspike.__file__).parent.parent


class CodeDigest(NamedTuple):
    """One source file and what it does."""

    file: str
    """``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed."""
    digest: str
    """Twelve hexadecimal digits; equal for files that differ in comments or layout only."""

    def __str__(self) -> str:
        """How a scheduler prints it as a reason."""
        return f"{self.file} {self.digest}"


def code_digests(script: Path, *, neutral: Collection[str] = ()) -> tuple[CodeDigest, ...]:
    """The source files a program depends on, each with its digest, the program's own first.

    Args:
        script: the program; modules beside it that it imports are followed too.
        neutral: further modules or packages that cannot change the result, such as
            ``vrtspike.monitoring`` for a training.

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    ignored = NEUTRAL.union(neutral)
    entry = script.resolve()
    seen = {entry}
    waiting = [entry]
    while waiting:
        found = [_find(name, entry.parent) for name in _read(waiting.pop()).imports]
        new = {path for module, path in filter(None, found) if not _belongs(module, ignored)} - seen
        seen |= new
        waiting.extend(new)
    others = sorted(CodeDigest(_label(path), _read(path).digest) for path in seen - {entry})
    return (CodeDigest(_label(entry), _read(entry).digest), *others)


def code_digest(script: Path, *, neutral: Collection[str] = ()) -> str:
    """One digest for all of :func:`code_digests`: 64 hexadecimal digits."""
    return json_digest(code_digests(script, neutral=neutral))


def _belongs(module: str, names: Collection[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def _label(path: Path) -> str:
    if path.is_relative_to(_SOURCES / PACKAGE):
        return path.relative_to(_SOURCES).as_posix()
    return f"{path.parent.name}/{path.name}"


class _Source(NamedTuple):
    digest: str
    imports: frozenset[str]  # dotted names, of modules or of what is in them


@cache
def _read(path: Path) -> _Source:
    """Digest a file as Python would print it without docstrings, and list what it imports."""
    tree = ast.parse(path.read_bytes(), filename=str(path))
    package = _package_of(path)
    imports = frozenset(name for node in _statements(tree) for name in _names(node, package))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [child for child in node.body if not _is_bare_text(child)]
    return _Source(hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12], imports)


def _is_bare_text(node: ast.stmt) -> bool:
    """Whether a statement is a string alone: a docstring of a module, class, function or name."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only a type checker runs."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            for alternative in child.orelse:
                yield alternative
                yield from _statements(alternative)
            continue
        yield child
        yield from _statements(child)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _names(node: ast.AST, package: str) -> Iterator[str]:
    """The dotted names a statement imports, relative ones resolved."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")
        base = parents[: len(parents) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        yield from (f"{origin}.{alias.name}" for alias in node.names)


def _package_of(path: Path) -> str:
    if not path.is_relative_to(_SOURCES):
        return ""
    return ".".join(path.relative_to(_SOURCES).parent.parts)


def _find(name: str, scripts: Path) -> tuple[str, Path] | None:
    """The module that a dotted name is or lives in, if it is one of this project's."""
    top = name.partition(".")[0]
    root = _SOURCES if top == PACKAGE else scripts
    parts = name.split(".")
    for end in (len(parts), len(parts) - 1):
        candidate = root.joinpath(*parts[:end])
        for path in (candidate.with_suffix(".py"), candidate / "__init__.py"):
            if end and path.is_file():
                return ".".join(parts[:end]), path.resolve()
    return None
