"""Test files of what was changed since the last commit, for ``make quick``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath

from tests.module_tests import TESTED_WITH, own_file, used

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
PACKAGE = "src/vrtspike/"
PLUGINS = {
    "src/snakemake_executor_plugin_slurm_vrtspike/": "cluster/test_executor.py",
    "src/snakemake_logger_plugin_vrtspike/": "workflow/test_logger_plugin.py",
}
"""Test files of the packages that Snakemake finds by their names."""


def changed_files() -> list[str]:
    """Files that differ from the last commit, and new ones."""
    commands = (
        ["git", "diff", "--name-only", "HEAD"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    outputs = [
        subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        for command in commands
    ]
    return "".join(outputs).splitlines()


def select_tests(files: Iterable[str]) -> list[Path]:
    """Test files, and folders of them, of changed files."""
    tests = {test for name in files for test in tests_of(name)}
    return sorted(path for path in tests if tests.isdisjoint(path.parents))


def tests_of(name: str) -> set[Path]:
    """Test files and folders of one changed file, given by its path below the repository."""
    path = REPOSITORY / name
    if not path.is_file():
        return set()
    if path.is_relative_to(TESTS) and path.suffix == ".py":
        return tests_with(path)
    if name.startswith(PACKAGE):
        module = name.removeprefix(PACKAGE)
        return tests_of_module(module) if path.suffix == ".py" else folder_of_asset(module)
    return {TESTS / file for folder, file in PLUGINS.items() if name.startswith(folder)}


def tests_of_module(module: str) -> set[Path]:
    """The test files of a module, such as ``io/files.py``, as tests/README.md finds them."""
    module = module.removesuffix(".py")
    together = {TESTS / file for file, names in TESTED_WITH.items() if module in names}
    own = own_file(TESTS, module)
    return together | {own} if own else together


def folder_of_asset(name: str) -> set[Path]:
    """The folder of tests of the package that a file without code belongs to."""
    folders = [TESTS / parent for parent in PurePath(name).parents if parent.name]
    return set([folder for folder in folders if folder.is_dir()][:1])


def tests_with(helper: Path) -> set[Path]:
    """Test files that import a helper, also through others; of a ``conftest.py`` its folder.

    A test file is its own. ``tests/conftest.py``, which all tests share, does not select them all.
    """
    reached: set[Path] = set()
    pending = {helper}
    while pending:
        path = pending.pop()
        reached.add(path)
        importers = {file for file in TESTS.rglob("*.py") if path in used(file, REPOSITORY)}
        pending |= importers - reached
    tests = {path for path in reached if path.name.startswith("test_")}
    folders = {path.parent for path in reached if path.name == "conftest.py"}
    return tests | folders - {TESTS}


def main(files: list[str]) -> None:
    """Print the selected tests, and as an error output the files for which there are none."""
    print(*select_tests(files))
    without = [name for name in files if not tests_of(name)]
    if without:
        print("no tests selected, besides tests/repository, for", *without, file=sys.stderr)


if __name__ == "__main__":
    main(changed_files())
