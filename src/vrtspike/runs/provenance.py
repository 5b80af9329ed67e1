"""Digests of the source files that a program is made of.

A program is a file under ``scripts/``. Its source files are those of this project that it imports,
directly or indirectly, also within functions. Comments, docstrings, layout, imports for type
checkers and the modules in :data:`NEUTRAL` do not count.

A string that is the dotted name of a class, as in a registry of lazily imported classes, counts as
an import. Other dynamic imports (``importlib.import_module``) are not found.
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
NEUTRAL = ("vrtspike.system.cli", "vrtspike.system.errors")
"""Modules that only report to the user; a package stands for all its modules."""

_SOURCES = Path(__file__).parents[2]
_CLASS_NAME = re.compile(rf"{PACKAGE}(\.\w+)+\.[A-Z]\w*")


def code_digests(
    script: Path, *, uses: Collection[str] = (), neutral: Collection[str] = ()
) -> dict[str, str]:
    """The source files of a program, each with its digest, the program's own first.

    Files are named ``scripts/<name>`` or ``vrtspike/<path>``, wherever the package is installed; a
    digest has twelve hexadecimal digits.

    Args:
        script: the program; modules beside it that it imports are followed too.
        uses: dotted names of functions and constants that the program uses dynamically, such as
            those of a problem (:mod:`vrtspike.config.problems`). Of their modules only these
            definitions count, with those that they use there.
        neutral: further modules and packages that do not count.

    Raises:
        FileNotFoundError: if there is no such program.
        SyntaxError: if a source file is not valid Python.
    """
    script = script.resolve()
    ignored = tuple(f"{name}." for name in (*NEUTRAL, *neutral))
    digests: dict[str, set[str]] = defaultdict(set)
    queue: list[tuple[Path | None, str]] = [(script, "")]
    for name in uses:
        module, _, definition = name.rpartition(".")
        queue.append((_find(module, script.parent), definition))
    seen: set[tuple[Path | None, str]] = {(None, "")}
    while queue:
        path, definition = source = queue.pop()
        if path is None or source in seen:
            continue
        seen.add(source)
        digest, imports = _summary(path, path.read_bytes(), definition)
        digests[_label(path)].add(digest)
        names = (name for name in imports if not f"{name}.".startswith(ignored))
        queue += [(_find(name, script.parent), "") for name in names]
    own = _label(script)
    files = [own, *sorted(digests.keys() - {own})]
    return {file: json_digest(sorted(digests[file]))[:12] for file in files}


@cache
def _find(name: str, folder: Path) -> Path | None:
    """The source file of a module, or of a definition in a module; None outside this project.

    Args:
        name: dotted.
        folder: of the program.
    """
    parts = name.split(".")
    root = _SOURCES if parts[0] == PACKAGE else folder
    for end in range(len(parts), max(0, len(parts) - 2), -1):
        base = root.joinpath(*parts[:end])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path.resolve()
    return None


def _label(path: Path) -> str:
    if path.is_relative_to(_SOURCES / PACKAGE):
        return path.relative_to(_SOURCES).as_posix()
    return f"{path.parent.name}/{path.name}"


@cache
def _summary(path: Path, contents: bytes, definition: str) -> tuple[str, list[str]]:
    """A digest of the statements of a file, and the dotted names that they import.

    Args:
        path: of the file.
        contents: of the file.
        definition: a name; only the statements count that define it and those that they use. All
            count if it is empty.
    """
    tree: ast.Module = _Stripped().visit(ast.parse(contents, str(path)))
    rest = tree.body
    used = [] if definition else rest
    names = {definition}
    # Statements that define nothing run in any case.
    while definition and (
        found := [each for each in rest if not (own := _defined_names(each)) or own & names]
    ):
        used += found
        rest = [each for each in rest if each not in found]
        nodes = (node for each in found for node in ast.walk(each))
        names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return hashlib.sha256(_text(used).encode()).hexdigest(), sorted(_imports(used, path))


def _text(node: object) -> str:
    """A syntax tree as text that is the same in every Python, unlike those that ``ast`` makes."""
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    if isinstance(node, ast.JoinedStr):
        # Each Python cuts the text between the values in its own places.
        parts = (v.value if isinstance(v, ast.Constant) else f"\0{_text(v)}\0" for v in node.values)
        return ascii("".join(map(str, parts)))
    if not isinstance(node, ast.AST):
        return ascii(node)
    # New fields are empty in old code.
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({', '.join(f'{name}={_text(value)}' for name, value in fields)})"


def _defined_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


class _Stripped(ast.NodeTransformer):
    """Removes docstrings and imports for type checkers."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def _imports(statements: Sequence[ast.stmt], path: Path) -> set[str]:
    names: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = path.relative_to(_SOURCES).parts[: -node.level] if node.level else ()
            module = [*parents, *([node.module] if node.module else [])]
            names |= {".".join([*module, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value} if _CLASS_NAME.fullmatch(node.value) else set()
    return names
