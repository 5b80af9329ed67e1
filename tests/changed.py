"""Test files of what was changed since the last commit, for ``make quick``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.module_tests import TESTED_WITH, own_file

TESTS = Path(__file__).parent
PACKAGE = "src/vrtspike/"


def changed_files() -> list[str]:
    """Files that differ from the last commit, and new ones."""
    commands = (
        ["git", "diff", "--name-only", "HEAD"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    outputs = [
        subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
        for command in commands
    ]
    return "".join(outputs).splitlines()


def select_tests(files: Iterable[str]) -> list[Path]:
    """Changed test files, and those of changed modules, as tests/README.md finds them."""
    tests = set()
    for name in files:
        path = TESTS.parent / name
        if path.name.startswith("test_") and path.is_file():
            tests.add(path)
        elif name.startswith(PACKAGE) and path.suffix == ".py":
            module = name.removeprefix(PACKAGE).removesuffix(".py")
            together = [TESTS / file for file, names in TESTED_WITH.items() if module in names]
            tests |= {own_file(TESTS, module), *together} - {None}
    return sorted(tests)


if __name__ == "__main__":
    print(*select_tests(changed_files()))
