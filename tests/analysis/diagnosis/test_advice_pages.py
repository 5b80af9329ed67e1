"""The page of findings, whose table ``scripts/advice_reference.py`` writes."""

from __future__ import annotations

import re

import pytest

from tests.helpers.concurrency import run_python


def test_the_table_of_the_page_is_that_of_the_advice(repository, tmp_path):
    text = (repository / "docs/findings.md").read_text(encoding="utf-8")
    page = tmp_path / "findings.md"
    page.write_text(re.sub(r"^(\| GPU idle.*)$", r"\1 |", text, flags=re.MULTILINE))
    assert page.read_text() != text
    command = ("scripts/advice_reference.py", page)
    assert "older than analysis/diagnosis" in run_python(*command, "--check", cwd=repository).stderr
    assert not run_python(*command, cwd=repository).returncode
    assert page.read_text() == text, "run: python scripts/advice_reference.py"


@pytest.mark.parametrize("text", ["# Findings\n", "<!-- from analysis/diagnosis: weather -->\n"])
def test_a_page_without_a_known_table_is_refused(text, repository, tmp_path):
    (tmp_path / "page.md").write_text(text)
    output = run_python("scripts/advice_reference.py", tmp_path / "page.md", cwd=repository)
    assert (output.returncode, "from analysis/diagnosis" in output.stderr) == (2, True)
