"""Digests of the code behind a program, blind to everything that cannot change its result.

A program is a file under ``scripts/``. What counts is every function, class and constant of this
package that it uses, directly or through others, and what the modules that hold them do when they
are imported. Comments, docstrings, formatting, annotations of functions, imports for type checkers
and definitions that nothing here uses do not count; neither do the modules in :data:`NEUTRAL`,
which only speak to the user.

A text that is the dotted name of one of them, as in a table of classes that are imported when they
are needed, counts as its use. Other names that are computed when the program runs (``getattr``,
``importlib.import_module``) are not seen.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import vrtspike
from vrtspike.provenance.modules import Definition, Module, imported_names, read_module
from vrtspike.provenance.remembered import remembered

PACKAGE = "vrtspike"
NEUTRAL = frozenset({"vrtspike.cli", "vrtspike.errors"})
"""Modules that report to the user and compute nothing; a package name stands for all in it."""

_SOURCES = Path(vrtspike.__file__).parent.parent
_EVERYTHING = "*"


class CodeDigest(NamedTuple):
    """One source file and what it does."""

    file: str
    """``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed."""
    digest: str
    """Twelve hexadecimal digits, of the parts of the file that the program uses."""

    def __str__(self) -> str:
        """How a scheduler prints it as a reason."""
        return f"{self.file} {self.digest}"


def code_digests(
    script: Path, *, neutral: Collection[str] = (), uses: Collection[str] = ()
) -> tuple[CodeDigest, ...]:
    """The source files a program depends on, each with its digest, the program's own first.

    Args:
        script: the program; modules beside it that it imports are followed too.
        neutral: further packages, modules or definitions that cannot change the result, such as
            ``vrtspike.monitoring`` for a training.
        uses: dotted names that the program comes to use by names it computes, such as those of a
            problem (:mod:`vrtspike.problems`).

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    found = _remembered("files", _by_file, script, neutral, uses)
    return tuple(CodeDigest(file, digest) for file, digest in found)


def definition_digests(
    script: Path, *, neutral: Collection[str] = (), uses: Collection[str] = ()
) -> dict[str, str]:
    """Every definition a program depends on, with its digest.

    Args:
        script: the program.
        neutral: as for :func:`code_digests`.
        uses: likewise.

    Returns:
        eight hexadecimal digits by ``<path within the package or scripts/name>:<definition>``;
        what a module does beside defining names is its ``(module)``.
    """
    found: dict[str, str] = _remembered("definitions", _by_definition, script, neutral, uses)
    return found


def _remembered(
    question: str,
    answer: Callable[[_Closure], Any],
    script: Path,
    neutral: Collection[str],
    uses: Collection[str],
) -> Any:  # noqa: ANN401 - what is asked for
    entry, ignored = script.resolve(), NEUTRAL.union(neutral)
    whole = " ".join([question, *sorted(ignored), "+", *sorted(uses)])
    closure = _Closure(entry, ignored, uses)
    return remembered(entry, _SOURCES / PACKAGE, whole, lambda: answer(closure))


def _by_file(closure: _Closure) -> list[tuple[str, str]]:
    """Used source files with their digests, the program first."""
    used, entry = closure.used(), closure.entry
    digests = {path: _digest(definitions) for path, definitions in used.items()}
    own = (_label(entry), digests.pop(entry))
    return [own, *sorted((_label(path), digest) for path, digest in digests.items())]


def _by_definition(closure: _Closure) -> dict[str, str]:
    """Used definitions with their digests."""
    groups: dict[str, list[Definition]] = defaultdict(list)
    for path, definitions in closure.used().items():
        file = _label(path).removeprefix(f"{PACKAGE}/")
        for definition in definitions:
            for name in definition.names or ["(module)"]:
                groups[f"{file}:{name}"].append(definition)
    return {name: _digest(found)[:8] for name, found in sorted(groups.items())}


def _digest(definitions: Collection[Definition]) -> str:
    ordered = sorted(definitions, key=lambda definition: definition.statement.lineno)
    text = "\n".join(definition.text for definition in ordered)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _label(path: Path) -> str:
    if path.is_relative_to(_SOURCES / PACKAGE):
        return path.relative_to(_SOURCES).as_posix()
    return f"{path.parent.name}/{path.name}"


class _Place(NamedTuple):
    """A name in a source file; :data:`_EVERYTHING` stands for the whole file."""

    path: Path
    name: str


class _Closure:
    """Everything that a program uses."""

    def __init__(self, entry: Path, neutral: Collection[str], uses: Collection[str] = ()) -> None:
        self.entry = entry
        self._neutral = neutral
        self._uses_by_name = tuple(uses)

    def used(self) -> dict[Path, set[Definition]]:
        """The used definitions by source file."""
        found: dict[Path, set[Definition]] = defaultdict(set)
        waiting = [_Place(self.entry, _EVERYTHING)]
        waiting += [place for name in self._uses_by_name for place in self._places(name)]
        seen = set(waiting)
        while waiting:
            place = waiting.pop()
            module = self._module(place.path)
            if place.name == _EVERYTHING:
                definitions = module.everything
            else:
                definitions = [*module.definitions.get(place.name, []), *module.always]
            new = set(definitions) - found[place.path]
            found[place.path] |= new
            places = {p for definition in new for p in self._uses(place.path, module, definition)}
            if place.name in module.imported and place.name not in module.definitions:
                places |= set(self._places(module.imported[place.name]))
            waiting += places - seen
            seen |= places
        return {path: set(found[path]) for path in found if found[path] or path == self.entry}

    def _module(self, path: Path) -> Module:
        inside = path.is_relative_to(_SOURCES)
        parents = path.relative_to(_SOURCES).parent.parts if inside else ()
        return read_module(path, ".".join(parents))

    def _uses(self, path: Path, module: Module, definition: Definition) -> Iterator[_Place]:
        """Where the names that a definition uses are defined."""
        local = dict(module.imported)
        for node in definition.imports:
            local |= imported_names(node, module.package)
        for chain in definition.chains:
            first, _, rest = chain.partition(".")
            if first in module.definitions:
                yield _Place(path, first)
            elif first in local:
                yield from self._places(f"{local[first]}.{rest}" if rest else local[first])
        for text in definition.dotted_texts:
            # A text that names a module alone is a registry's, whose user asks for parts of it.
            if text.startswith(f"{PACKAGE}."):
                yield from (p for p in self._places(text) if p.name != _EVERYTHING)

    def _places(self, dotted: str) -> Iterator[_Place]:
        """The place a dotted name stands for, if it is in this project and counts."""
        root = _SOURCES if dotted.partition(".")[0] == PACKAGE else self.entry.parent
        found = _source_file(root, dotted)
        if found is not None:
            path, inside, name = found
            if not self._is_neutral(inside):
                yield self._known(path, name)

    def _known(self, path: Path, name: str) -> _Place:
        """The name in a file, or the whole file where the name comes about in another way."""
        module = self._module(path)
        known = name in module.definitions or name in module.imported
        return _Place(path, name if known else _EVERYTHING)

    def _is_neutral(self, dotted: str) -> bool:
        return any(dotted == name or dotted.startswith(f"{name}.") for name in self._neutral)


@cache
def _source_file(root: Path, dotted: str) -> tuple[Path, str, str] | None:
    """The file behind a dotted name, the part of the name up to what it means in it, and that."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        candidate = root.joinpath(*parts[:end])
        for path in (candidate.with_suffix(".py"), candidate / "__init__.py"):
            if path.is_file():
                name = parts[end] if end < len(parts) else _EVERYTHING
                return path.resolve(), ".".join(parts[: end + 1]), name
    return None
