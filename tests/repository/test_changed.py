"""The tests that ``make quick`` selects, and those that ``make test`` leaves out."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.changed import select_tests


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/vrtspike/io/files.py", ["io/test_files.py"]),
        ("src/vrtspike/data/raw/layouts/spk_gopro.py", ["data/raw/test_layouts.py"]),
        ("src/vrtspike/metrics/lpips.py", ["metrics/test_registry.py"]),
        ("tests/io/test_locks.py", ["io/test_locks.py"]),
        ("tests/io/test_removed.py", []),
        ("docs/model.md", []),
    ],
)
def test_make_quick_runs_the_tests_of_changed_files(repository, changed, tests):
    assert select_tests([changed]) == [repository / "tests" / name for name in tests]


def test_make_test_ends_with_what_it_leaves_out(repository):
    listed = subprocess.run(
        ["make", "--dry-run", "test"], cwd=repository, capture_output=True, text=True, check=True
    )
    # Within another make, a line on the folder follows.
    (line,) = [line for line in listed.stdout.splitlines() if "not run: make core" in line]
    parent, names = re.search(r"(\S+)\{(.*)\}/", line).groups()
    folders = ["rules", *(f"{parent}{name}" for name in names.split(","))]
    assert len(folders) == 5
    assert [folder for folder in folders if not (repository / folder).is_dir()] == []
