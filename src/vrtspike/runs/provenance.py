"""Digests of the code that a program uses, without what cannot change its result.

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

import contextlib
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import vrtspike
from vrtspike.io.files import json_digest, read_json, write_json
from vrtspike.runs.definitions import Definition, Module, imported_names, read_module

PACKAGE = "vrtspike"
NEUTRAL = frozenset({"vrtspike.system.cli", "vrtspike.errors"})
"""Modules that report to the user and compute nothing; a package name stands for all in it."""

_SOURCES = Path(vrtspike.__file__).parent.parent
_WHOLE_FILE = "*"


def code_digests(
    script: Path, *, neutral: Collection[str] = (), uses: Collection[str] = ()
) -> dict[str, str]:
    """The source files a program depends on, each with its digest, the program's own first.

    Files are named ``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed; a
    digest is twelve hexadecimal digits, of the parts of the file that the program uses.

    Args:
        script: the program; modules beside it that it imports are followed too.
        neutral: further packages, modules or definitions that cannot change the result, such as
            ``vrtspike.monitoring`` for a training.
        uses: dotted names that the program comes to use by names it computes, such as those of a
            problem (:mod:`vrtspike.config.problems`).

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    files: dict[str, dict[str, str]] = defaultdict(dict)
    for name, digest in _used_definitions(script, neutral, uses).items():
        files[name.rpartition(":")[0]][name] = digest
    own = _label(script.resolve())
    return {file: json_digest(files[file])[:12] for file in dict.fromkeys([own, *sorted(files)])}


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
    found = _used_definitions(script, neutral, uses)
    return {name.removeprefix(f"{PACKAGE}/"): digest for name, digest in found.items()}


def _used_definitions(
    script: Path, neutral: Collection[str], uses: Collection[str]
) -> dict[str, str]:
    """:func:`definition_digests`, each file as :func:`code_digests` names it."""
    entry, ignored = script.resolve(), NEUTRAL.union(neutral)
    closure = _Closure(entry, ignored, uses)
    key = " ".join([*sorted(ignored), "+", *sorted(uses)])
    found: dict[str, str] = cached_on_disk(
        entry, _SOURCES / PACKAGE, key, lambda: _by_definition(closure)
    )
    return found


def _by_definition(closure: _Closure) -> dict[str, str]:
    groups: dict[str, list[Definition]] = defaultdict(list)
    for path, definitions in closure.used().items():
        for definition in definitions:
            for name in definition.names or ["(module)"]:
                groups[f"{_label(path)}:{name}"].append(definition)
    return {name: _digest(found) for name, found in sorted(groups.items())}


def _digest(definitions: Collection[Definition]) -> str:
    ordered = sorted(definitions, key=lambda definition: definition.statement.lineno)
    text = "\n".join(definition.text for definition in ordered)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _label(path: Path) -> str:
    if path.is_relative_to(_SOURCES / PACKAGE):
        return path.relative_to(_SOURCES).as_posix()
    return f"{path.parent.name}/{path.name}"


class _Reference(NamedTuple):
    """A name in a source file; :data:`_WHOLE_FILE` stands for the whole file."""

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
        queue = [_Reference(self.entry, _WHOLE_FILE)]
        queue += [reference for name in self._uses_by_name for reference in self._resolve(name)]
        seen = set(queue)
        while queue:
            path, name = queue.pop()
            module = self._module(path)
            if name == _WHOLE_FILE:
                definitions = module.all_definitions
            else:
                definitions = [*module.definitions.get(name, []), *module.module_level]
            new = set(definitions) - found[path]
            found[path] |= new
            names = {p for definition in new for p in self._uses(path, module, definition)}
            if name in module.imported and name not in module.definitions:
                names |= set(self._resolve(module.imported[name]))
            queue += names - seen
            seen |= names
        return {path: set(found[path]) for path in found if found[path] or path == self.entry}

    def _module(self, path: Path) -> Module:
        inside = path.is_relative_to(_SOURCES)
        parents = path.relative_to(_SOURCES).parent.parts if inside else ()
        return read_module(path, ".".join(parents))

    def _uses(self, path: Path, module: Module, definition: Definition) -> Iterator[_Reference]:
        """Where the names that a definition uses are defined."""
        local = dict(module.imported)
        chains, imports = definition.uses
        for node in imports:
            local |= imported_names(node, module.package)
        for chain in chains:
            first, _, rest = chain.partition(".")
            if first in module.definitions:
                yield _Reference(path, first)
            elif first in local:
                yield from self._resolve(f"{local[first]}.{rest}" if rest else local[first])
        for text in definition.dotted_texts:
            # A text that names a whole module is of a registry: its user names the parts.
            if text.startswith(f"{PACKAGE}."):
                yield from (p for p in self._resolve(text) if p.name != _WHOLE_FILE)

    def _resolve(self, dotted: str) -> Iterator[_Reference]:
        """The place a dotted name stands for, if it is in this project and counts."""
        root = _SOURCES if dotted.partition(".")[0] == PACKAGE else self.entry.parent
        found = _source_file(root, dotted)
        if found is not None:
            path, inside, name = found
            if not self._is_neutral(inside):
                yield self._reference_in(path, name)

    def _reference_in(self, path: Path, name: str) -> _Reference:
        """The name in a file, or the whole file where the name comes about in another way."""
        module = self._module(path)
        known = name in module.definitions or name in module.imported
        return _Reference(path, name if known else _WHOLE_FILE)

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
                name = parts[end] if end < len(parts) else _WHOLE_FILE
                return path.resolve(), ".".join(parts[: end + 1]), name
    return None


def cached_on_disk(entry: Path, package: Path, key: str, compute: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON value
    """The answer to a question about a program, computed again when any source file is another.

    It stands where Python keeps the program's bytecode, and holds for the contents of all source
    files, whatever their dates.

    Args:
        entry: the program; it may use the files in its folder.
        package: folder of the package that it may use.
        key: tells this question from others about the program.
        compute: finds the answer, a JSON value.
    """
    sources, known = _cached_sources(entry.parent, package), dict[str, Any]()
    file = Path(cache_from_source(str(entry))).with_suffix(".code.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not there, or damaged
        found = read_json(file)
        known |= found["answers"] if found["sources"] == sources else {}
    if key not in known:
        known[key] = compute()
        # Where someone edits at this moment the answer may be of either version.
        if _sources(entry.parent, package) == sources:
            with contextlib.suppress(OSError):  # a read-only folder: found again next time
                write_json(file, {"sources": sources, "answers": known})
    return known[key]


def _sources(*folders: Path) -> str:
    """Digest of the names and contents of all source files in these folders, and of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            contents = path.read_bytes()
            name = path.relative_to(folder.parent).as_posix()
            digest.update(f"{name}\0{len(contents)}\0".encode())
            digest.update(contents)
    return digest.hexdigest()


_cached_sources = cache(_sources)
