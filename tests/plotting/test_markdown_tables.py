"""Tables in pages of Markdown: their cells, and those that are generated."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from vrtspike.plotting.markdown_tables import markdown_table, update_tables
from vrtspike.system.errors import DataError

TABLE = "| a |\n| --- |\n| 1 |\n"
PAGE = "# Title\n\n<!-- from sets.toml: own -->\n| old |\n| --- |\n\nAfter it.\n"


def update(page: Path, tables: dict[str, str], *, is_check: bool = False) -> None:
    update_tables(page, "sets.toml", tables, command="make format", is_check=is_check)


def test_a_table_escapes_bars_and_aligns_numbers():
    rows = pd.DataFrame({"name": ["a|b"], "psnr": ["30.1"]})
    assert markdown_table(rows) == "| name | psnr |\n| --- | ---: |\n| a\\|b | 30.1 |\n"


def test_the_table_of_a_page_is_replaced_and_nothing_else(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(DataError, match=r"page\.md: older than sets\.toml; run make format"):
        update(page, {"own": TABLE}, is_check=True)
    assert page.read_text() == PAGE
    update(page, {"own": TABLE})
    new = PAGE.replace("| old |\n| --- |\n", TABLE)
    assert page.read_text() == new
    update(page, {"own": TABLE}, is_check=True)
    assert capsys.readouterr().out == f"wrote {page}\n{page}: up to date\n"


def test_a_page_has_a_mark_for_each_table_and_no_other(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(DataError, match=r"found no <!-- from sets\.toml: further -->"):
        update(page, {"own": TABLE, "further": TABLE})
    page.write_text(PAGE + "<!-- from sets.toml: unknown -->\n")
    with pytest.raises(
        DataError, match=r"found <!-- from sets\.toml: unknown -->, expected one of"
    ):
        update(page, {"own": TABLE})
