from __future__ import annotations

import re
import subprocess
import sys

import pytest

from vrtspike.analysis.advice import with_tables
from vrtspike.errors import DataError


@pytest.mark.parametrize("name", ["findings.md", "troubleshooting.md"])
def test_pages_hold_the_tables(name, repository, tmp_path):
    text = (repository / "docs" / name).read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python scripts/advice_reference.py"
    page = tmp_path / name
    page.write_text(
        re.sub(r"^(\| (?:GPU idle|nothing happens).*)$", r"\1 |", text, flags=re.M), "utf-8"
    )
    command = [sys.executable, "scripts/advice_reference.py", str(page)]
    stale = subprocess.run(
        [*command, "--check"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert stale.returncode == 2
    assert "older than advice.yaml" in stale.stderr
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("page", ["# Findings\n", "<!-- from advice.yaml: weather -->\n"])
def test_a_page_without_a_known_table_is_refused(page):
    with pytest.raises(DataError, match=r"from advice\.yaml"):
        with_tables(page)
