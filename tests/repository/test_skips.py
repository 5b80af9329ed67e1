"""With CI=true a skip is a failure: all that tests need is installed."""

from __future__ import annotations

import re

import pytest

from tests.helpers.concurrency import run_python

SKIPS = """\
import pytest

def test_without_a_program():
    pytest.skip("needs Chromium")

def test_without_a_gpu():
    pytest.skip("needs a CUDA device")
"""
MISSING = 'import pytest\n\npytest.importorskip("no_such_package")\n'


@pytest.mark.parametrize(
    ("ci", "summary"), [("true", "1 failed, 1 skipped, 1 error"), ("", "3 skipped")]
)
def test_a_skip_is_a_failure_where_all_is_installed(repository, tmp_path, monkeypatch, ci, summary):
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_import.py").write_text(MISSING)
    monkeypatch.setenv("CI", ci)
    options = ("-q", "--continue-on-collection-errors", "-p", "tests.conftest")
    done = run_python("-m", "pytest", *options, tmp_path, cwd=repository)
    assert re.search(rf"^{summary} in ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert (done.returncode != 0) == (ci == "true")
