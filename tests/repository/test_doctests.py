"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import vrtspike

PACKAGE = Path(vrtspike.__file__).parent
MODULES = [
    ".".join(("vrtspike", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def examples(name: str) -> list[doctest.DocTest]:
    doctests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    return [test for test in doctests if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_what_a_docstring_shows_is_what_comes_out(name):
    tests = examples(name)
    assert tests, f"{name} shows examples where nobody looks for them"
    runner, messages = doctest.DocTestRunner(verbose=False), []
    for test in tests:
        runner.run(test, out=messages.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(messages)
