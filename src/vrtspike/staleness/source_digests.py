"""Digests of the source files of a program.

A program is a file under ``scripts/``. The source files of a program are the files of this project
that it imports, directly or indirectly, also within functions. Comments, docstrings, layout,
imports for type checkers and the modules in :data:`IGNORED_MODULES` do not count.

A string that is the dotted name of a class, as in a registry of lazily imported classes, counts as
an import. Dynamic imports of other kinds (``importlib.import_module``) are not detected.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from vrtspike.io.files import json_digest

PACKAGE = "vrtspike"
IGNORED_MODULES = (
    "vrtspike.system.errors",
    "vrtspike.system.options",
    "vrtspike.system.program",
    "vrtspike.system.user_error_messages",
)
"""Modules that only report to the user; a package includes all its modules."""

SOURCES = Path(__file__).parents[2]
"""The folder of the package."""
_CLASS_NAME = re.compile(rf"{PACKAGE}(\.\w+)+\.[A-Z]\w*")


def code_digests(
    script: Path, *, dynamic_uses: Collection[str] = (), ignored_modules: Collection[str] = ()
) -> dict[str, str]:
    """Digest the source files of a program, its own file first.

    Files are named ``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed; a
    digest has twelve hexadecimal digits.

    Args:
        script: the program; imported modules in its folder are followed, too.
        dynamic_uses: dotted names of functions and constants that the program uses dynamically,
            such as those of a task (:mod:`vrtspike.config.tasks`). Only these definitions of their
            modules count, with the definitions that they use there.
        ignored_modules: further modules and packages that do not count.

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    script = script.resolve()
    folder = script.parent
    ignored = tuple(f"{name}." for name in (*IGNORED_MODULES, *ignored_modules))
    # Source files, each with the name of the definition that is used; empty for all of the file.
    queue = [(script, "")]
    for name in dynamic_uses:
        module, _, definition = name.rpartition(".")
        queue += [(path, definition) for path in _sources(module, folder)]
    digests: dict[str, set[str]] = defaultdict(set)
    finished: set[tuple[Path, str]] = set()
    while queue:
        source = queue.pop()
        if source in finished:
            continue
        finished.add(source)
        path, definition = source
        digest, imports = _summary(path, path.read_bytes(), definition)
        digests[_label(path)].add(digest)
        for name in imports:
            if not f"{name}.".startswith(ignored):
                queue += [(imported, "") for imported in _sources(name, folder)]
    program = _label(script)
    files = [program, *sorted(digests.keys() - {program})]
    return {file: json_digest(sorted(digests[file]))[:12] for file in files}


@cache
def _sources(name: str, folder: Path) -> tuple[Path, ...]:
    """Find the source file of a module, or of its definition; none outside this project.

    Args:
        name: dotted name of the module or definition.
        folder: folder of the program.
    """
    parts = name.split(".")
    root = SOURCES if parts[0] == PACKAGE else folder
    for end in range(len(parts), max(0, len(parts) - 2), -1):
        base = root.joinpath(*parts[:end])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return (path.resolve(),)
    return ()


def _label(path: Path) -> str:
    """Return the name of a source file in the result."""
    if path.is_relative_to(SOURCES / PACKAGE):
        return path.relative_to(SOURCES).as_posix()
    return f"{path.parent.name}/{path.name}"


@cache
def _summary(path: Path, contents: bytes, definition: str) -> tuple[str, list[str]]:
    """Return a digest of the statements of a file, and the dotted names that they import.

    Args:
        path: path of the file.
        contents: contents of the file.
        definition: a name; only its statements count, and the statements that they use. All
            statements count if it is empty.
    """
    tree: ast.Module = _Stripped().visit(ast.parse(contents, str(path)))
    statements = _used_statements(tree.body, definition) if definition else tree.body
    digest = hashlib.sha256(_text(statements).encode()).hexdigest()
    imports: set[str] = set()
    for statement in statements:
        for node in ast.walk(statement):
            imports |= _imported_names(node, path)
    return digest, sorted(imports)


def _used_statements(statements: Sequence[ast.stmt], definition: str) -> list[ast.stmt]:
    """Return the statements that define a name, and those that they use.

    Statements that define nothing are returned, too: they always run.
    """
    used: list[ast.stmt] = []
    rest = list(statements)
    names = {definition}
    while True:
        needed = [statement for statement in rest if _is_needed(statement, names)]
        if not needed:
            return used
        used += needed
        rest = [statement for statement in rest if statement not in needed]
        for statement in needed:
            names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _is_needed(statement: ast.stmt, names: set[str]) -> bool:
    """Return whether a statement defines nothing, or one of some names."""
    defined = _defined_names(statement)
    return not defined or bool(defined & names)


def _text(node: object) -> str:
    """Convert a syntax tree to text, equal in every version of Python, unlike ``ast.dump``."""
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    if isinstance(node, ast.JoinedStr):
        # Versions of Python split the text between the values differently.
        return ascii("".join(map(_part_of_f_string, node.values)))
    if not isinstance(node, ast.AST):
        return ascii(node)
    fields = [
        f"{name}={_text(value)}"
        for name, value in ast.iter_fields(node)
        if value not in (None, [])  # as are the fields that newer versions of Python have added
    ]
    return f"{type(node).__name__}({', '.join(fields)})"


def _part_of_f_string(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return f"\0{_text(node)}\0"


def _defined_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


class _Stripped(ast.NodeTransformer):
    """Transformer of syntax trees that removes docstrings and imports for type checkers."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            return node.orelse
        return node


def _imported_names(node: ast.AST, path: Path) -> set[str]:
    """Return the dotted names that a node imports, or that of a class in a text."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        module: list[str] = []
        if node.level:
            module += path.relative_to(SOURCES).parts[: -node.level]
        if node.module:
            module.append(node.module)
        return {".".join([*module, alias.name]) for alias in node.names}
    if isinstance(node, ast.Constant) and _CLASS_NAME.fullmatch(str(node.value)):
        return {str(node.value)}
    return set()
