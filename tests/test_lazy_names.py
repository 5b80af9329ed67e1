"""Public names that are imported when they are used, in a package of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

STUB = """\
\"\"\"Public names.\"\"\"

from small.numbers import two as two
from small.texts import letter as letter

__version__: str
"""
INIT = """\
from vrtspike.lazy_names import attach_stub

__version__ = "1"
__all__, __getattr__, __dir__ = attach_stub(__name__, __file__)
"""


@pytest.fixture
def package(tmp_path):
    """A folder with the package ``small``, whose modules print that they are imported."""
    files = {
        "__init__.py": INIT,
        "__init__.pyi": STUB,
        "numbers.py": "print('numbers')\ntwo = [2]\n",
        "texts.py": "print('texts')\nletter = 'a'\n",
    }
    folder = tmp_path / "small"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return tmp_path


def lines(folder, code):
    """Lines that a program prints with the package."""
    script = f"import sys; sys.path.insert(0, {str(folder)!r}); import small\n{code}"
    return subprocess.check_output([sys.executable, "-c", script], text=True).splitlines()


def test_a_module_is_imported_when_its_name_is_used_and_once(package):
    assert lines(package, "print('begun'); print(small.two is small.two)") == [
        "begun",
        "numbers",
        "True",
    ]
    assert lines(package, "from small import *; print(two, letter)") == [
        "texts",
        "numbers",
        "[2] a",
    ]


def test_an_imported_name_is_an_attribute_of_the_package(package):
    code = "print('two' in vars(small)); small.two; print('two' in vars(small))"
    assert lines(package, code) == ["False", "numbers", "True"]


def test_all_names_are_listed_without_importing_them(package):
    assert lines(package, "print(small.__all__)") == ["['letter', 'two']"]
    (listed,) = lines(package, "print(*dir(small))")
    names = listed.split()
    assert names == sorted(names)
    assert {"__version__", "letter", "two"} <= set(names)


def test_an_unknown_name_is_reported_as_by_any_module(package):
    code = "try: small.three\nexcept AttributeError as error: print(error)"
    assert lines(package, code) == ["module 'small' has no attribute 'three'"]
