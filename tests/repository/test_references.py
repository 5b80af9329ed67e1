"""References in docstrings and comments, such as :func:`vrtspike.fit`, lead to something."""

from __future__ import annotations

import ast
import re
from pkgutil import resolve_name

from tests.repository.test_docstrings import definitions

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")


def leads_somewhere(name: str, module: str, tree: ast.Module) -> bool:
    """True for a full path, a name of the module, and an attribute of one of its classes."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    attributes = [(node.name, attribute) for node in classes for attribute in definitions(node)]
    if any(name in (attribute, f"{of}.{attribute}") for of, attribute in attributes):
        return True
    inherited = [f"{module}.{node.name}.{name}" for node in tree.body if node in classes]
    return any(map(resolves, [name, f"{module}.{name}", *inherited]))


def resolves(path: str) -> bool:
    try:
        resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def test_references_lead_somewhere(repository):
    source = repository / "src"
    dead = []
    for file in sorted(source.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        names, tree = ROLE.findall(text), ast.parse(text)
        module = ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        dead += [f"{file}: {name}" for name in names if not leads_somewhere(name, module, tree)]
    assert dead == []
