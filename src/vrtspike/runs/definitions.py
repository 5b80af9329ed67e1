"""The definitions of Python source files, and the names that each definition uses."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

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
