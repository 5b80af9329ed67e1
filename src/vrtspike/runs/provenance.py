"""Digests of the code that a program uses, without what cannot change its result.

A program is a file under ``scripts/``. Digests cover every function, class and constant of this
package that it uses, directly or indirectly, and the top-level statements of their modules. They do
not cover comments, docstrings, formatting, annotations of functions, imports for type checkers,
unused definitions, and the modules in :data:`NEUTRAL`.

A string that is a dotted name, as in a registry of lazily imported classes, counts as a use. Other
dynamic uses (``getattr``, ``importlib.import_module``) are not found.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import vrtspike
from vrtspike.io.files import json_digest, read_json, write_json

PACKAGE = "vrtspike"
NEUTRAL = frozenset({"vrtspike.system.cli", "vrtspike.errors"})
"""Modules that only report to the user; a package stands for all its modules."""

_SOURCES = Path(vrtspike.__file__).parent.parent
_WHOLE_FILE = "*"


def code_digests(script: Path, *, uses: Collection[str] = ()) -> dict[str, str]:
    """The source files a program depends on, each with its digest, the program's own first.

    Files are named ``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed; a
    digest is twelve hexadecimal digits, of the parts of the file that the program uses.

    Args:
        script: the program; modules beside it that it imports are followed too.
        uses: dotted names that the program uses dynamically, such as functions of a problem
            (:mod:`vrtspike.config.problems`).

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    files: dict[str, dict[str, str]] = defaultdict(dict)
    for name, digest in _used_definitions(script, (), uses).items():
        files[name.rpartition(":")[0]][name] = digest
    own = _label(script.resolve())
    return {file: json_digest(files[file])[:12] for file in dict.fromkeys([own, *sorted(files)])}


def definition_digests(
    script: Path, *, neutral: Collection[str] = (), uses: Collection[str] = ()
) -> dict[str, str]:
    """Every definition a program depends on, with its digest.

    Args:
        script: the program.
        neutral: further packages, modules or definitions to ignore, such as
            ``vrtspike.monitoring`` for a training.
        uses: as for :func:`code_digests`.

    Returns:
        eight hexadecimal digits by ``<path within the package or scripts/name>:<definition>``;
        other top-level statements of a module are its ``(module)``.
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


_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(eq=False)
class Definition:
    """A top-level statement of a module: a function, a class, an assignment, or another one."""

    statement: ast.stmt

    @property
    def names(self) -> list[str]:
        """The names that it defines; empty if it does anything else."""
        statement = self.statement
        if isinstance(statement, _DEFINITIONS):
            return [statement.name]
        if isinstance(statement, ast.AnnAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            return []
        flat = [part for target in targets for part in getattr(target, "elts", [target])]
        names = [part.id for part in flat if isinstance(part, ast.Name)]
        return names if len(names) == len(flat) else []

    @cached_property
    def text(self) -> str:
        """The statement as ``ast.unparse`` prints it, without comments and docstrings."""
        for node in ast.walk(self.statement):
            if isinstance(node, _DEFINITIONS):
                node.body = [child for child in node.body if not _is_docstring(child)]
        return ast.unparse(self.statement)

    @cached_property
    def dotted_texts(self) -> frozenset[str]:
        """Strings that are dotted names, such as those of lazily imported classes in registries."""
        texts = (n.value for n in ast.walk(self.statement) if isinstance(n, ast.Constant))
        return frozenset(t for t in texts if isinstance(t, str) and _DOTTED.fullmatch(t))

    @cached_property
    def uses(self) -> tuple[frozenset[str], tuple[ast.Import | ast.ImportFrom, ...]]:
        """The names the statement uses, with what follows them (``voxels.rate``), and its imports.

        Annotations of functions do not count: they are never evaluated.
        """
        # Without recursion, for speed: every call of Snakemake does this.
        chains: set[str] = set()
        imports: list[ast.Import | ast.ImportFrom] = []
        stack: list[ast.AST] = [self.statement]
        while stack:
            node = stack.pop()
            attributes: list[str] = []
            while isinstance(node, ast.Attribute):
                attributes.append(node.attr)
                node = node.value
            if isinstance(node, ast.Name):
                chains.add(".".join([node.id, *reversed(attributes)]))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(node)
            else:
                stack += reversed(_children(node))
        return frozenset(chains), tuple(imports)


@dataclass(eq=False)
class Module:
    """A source file.

    Attributes:
        definitions: functions, classes and assigned names of its top level, by name.
        imported: dotted name of each imported local name.
        module_level: other statements of its top level, which run on import.
    """

    package: str
    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    module_level: list[Definition] = field(default_factory=list)

    @property
    def all_definitions(self) -> list[Definition]:
        """All definitions and statements but imports."""
        named = (found for group in self.definitions.values() for found in group)
        return [*named, *self.module_level]


@cache
def read_module(path: Path, package: str) -> Module:
    """Parse a source file.

    Args:
        path: the file.
        package: dotted name of its package, for relative imports.

    Raises:
        SyntaxError: if it is not valid Python.
    """
    module = Module(package)
    for statement in ast.parse(path.read_bytes(), filename=str(path)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.imported |= imported_names(statement, package)
        elif _is_docstring(statement) or _is_for_type_checkers(statement):
            continue
        else:
            definition = Definition(statement)
            for name in definition.names:
                module.definitions.setdefault(name, []).append(definition)
            if not definition.names:
                module.module_level.append(definition)
                for node in definition.uses[1]:  # such as those under `try`
                    module.imported |= imported_names(node, package)
    return module


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """Local names that an import binds, with their dotted names."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            for alias in node.names
        }
    parents = package.split(".")
    base = parents[: len(parents) - node.level + 1] if node.level else []
    origin = ".".join([*base, *([node.module] if node.module else [])])
    return {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names}


def _is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a string alone: a docstring of a module, class, function or name."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_for_type_checkers(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
    )


def _children(node: ast.AST) -> list[ast.AST]:
    """Direct children of a node that are ever executed."""
    found: list[ast.AST] = []
    for name in node._fields:
        # Every file of this project has `from __future__ import annotations`.
        if name == "returns" or (name == "annotation" and isinstance(node, ast.arg)):
            continue
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return [child for child in found if not _is_for_type_checkers(child)]


class _Reference(NamedTuple):
    """A name in a source file; :data:`_WHOLE_FILE` stands for the whole file."""

    path: Path
    name: str


class _Closure:
    """The transitive closure of the definitions that a program uses."""

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
        """The references of a definition."""
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
            # A string with a whole module is in a registry; `uses` has the parts that are used.
            if text.startswith(f"{PACKAGE}."):
                yield from (p for p in self._resolve(text) if p.name != _WHOLE_FILE)

    def _resolve(self, dotted: str) -> Iterator[_Reference]:
        """The reference of a dotted name, if it is in this project and not neutral."""
        root = _SOURCES if dotted.partition(".")[0] == PACKAGE else self.entry.parent
        found = _source_file(root, dotted)
        if found is not None:
            path, inside, name = found
            if not self._is_neutral(inside):
                yield self._reference_in(path, name)

    def _reference_in(self, path: Path, name: str) -> _Reference:
        """The name in a file, or the whole file if the name is defined dynamically."""
        module = self._module(path)
        known = name in module.definitions or name in module.imported
        return _Reference(path, name if known else _WHOLE_FILE)

    def _is_neutral(self, dotted: str) -> bool:
        return any(dotted == name or dotted.startswith(f"{name}.") for name in self._neutral)


@cache
def _source_file(root: Path, dotted: str) -> tuple[Path, str, str] | None:
    """File of a dotted name, the name up to its first part in the file, and that part."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        candidate = root.joinpath(*parts[:end])
        for path in (candidate.with_suffix(".py"), candidate / "__init__.py"):
            if path.is_file():
                name = parts[end] if end < len(parts) else _WHOLE_FILE
                return path.resolve(), ".".join(parts[: end + 1]), name
    return None


def cached_on_disk(entry: Path, package: Path, key: str, compute: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON value
    """A value computed from source files, cached beside the program's bytecode.

    It is computed again when the contents of any source file have changed.

    Args:
        entry: the program; it may use the files in its folder.
        package: folder of the package that it may use.
        key: of the value.
        compute: returns the value, as JSON.
    """
    sources, known = _cached_sources(entry.parent, package), dict[str, Any]()
    file = Path(cache_from_source(str(entry))).with_suffix(".code.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged
        found = read_json(file)
        known |= found["answers"] if found["sources"] == sources else {}
    if key not in known:
        known[key] = compute()
        # Not if a source file was changed during the computation.
        if _sources(entry.parent, package) == sources:
            with contextlib.suppress(OSError):  # a read-only folder
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
