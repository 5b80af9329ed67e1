"""With CI=true a skip is a failure: all that tests need is installed."""

from __future__ import annotations

import pytest

from tests.concurrency import run_python

SKIPS = """\
import pytest

def test_skipped():
    pytest.skip("needs {}")
"""
MISSING = 'import pytest\n\npytest.importorskip("no_such_package")\n'


@pytest.mark.parametrize(
    ("source", "ci", "status"),
    [
        (SKIPS.format("Chromium"), "true", 1),
        (SKIPS.format("Chromium"), "", 0),
        (SKIPS.format("a CUDA device"), "true", 0),
        (MISSING, "true", 2),
        (MISSING, "", 5),
    ],
)
def test_a_skip_is_a_failure_where_all_is_installed(
    repository, tmp_path, monkeypatch, source, ci, status
):
    (tmp_path / "test_it.py").write_text(source)
    monkeypatch.setenv("CI", ci)
    done = run_python("-m", "pytest", "-q", "-p", "tests.conftest", tmp_path, cwd=repository)
    assert done.returncode == status, done.stdout + done.stderr
