"""The tests that ``make quick`` selects."""

from __future__ import annotations

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
