"""Public names of a package that are imported when they are used.

The stub ``__init__.pyi`` of the package lists them once, for type checkers and for this module, as
SPEC 1 of Scientific Python proposes.
"""

from __future__ import annotations

import sys
from importlib import import_module

# As of `typing`: until ``__main__`` has begun, Ctrl-C ends in a traceback, so little is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def attach_stub(
    package: str, init_file: str
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package with a stub.

    Args:
        package: name of the package.
        init_file: its ``__init__.py``; the stub is next to it.
    """
    modules = _read_stub(f"{init_file}i")

    def getattr_(name: str) -> object:
        """Import a public name when it is used."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        attribute: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, attribute)
        return attribute

    def dir_() -> list[str]:
        """The package's own names and those that are imported when they are used."""
        return sorted({*vars(sys.modules[package]), *modules})

    return sorted(modules), getattr_, dir_


def _read_stub(path: str) -> dict[str, str]:
    """Return the modules of the public names of a stub, one import on each line, by name."""
    modules = {}
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 - pathlib is slow to import
        for line in stub:
            if line.startswith("from "):
                _, module, _, name, _, _ = line.split()
                modules[name] = module
    return modules
