from __future__ import annotations

import re

import pytest

from vrtspike.analysis.findings import update_tables
from vrtspike.system.errors import DataError


@pytest.mark.parametrize("name", ["findings.md", "troubleshooting.md"])
def test_pages_hold_the_tables(name, repository):
    text = (repository / "docs" / name).read_text(encoding="utf-8")
    assert update_tables(text) == text, "run: python scripts/advice_reference.py"
    stale = re.sub(r"^(\| (?:GPU idle|nothing happens).*)$", r"\1 |", text, flags=re.M)
    assert stale != text
    assert update_tables(stale) == text


@pytest.mark.parametrize("page", ["# Findings\n", "<!-- from advice.yaml: weather -->\n"])
def test_a_page_without_a_known_table_is_refused(page):
    with pytest.raises(DataError, match=r"from advice\.yaml"):
        update_tables(page)
