"""HTML tables: numbers, text, missing values and narrow screens."""

from __future__ import annotations

import re

import pandas as pd

from vrtspike.plotting.pages import Table, write_page


def test_numbers_text_and_missing_values(tmp_path):
    frame = pd.DataFrame({"sequence": ["a<b", "mean"], "PSNR": [30.1234, float("nan")]})
    table = Table(frame, title="Results", formats={"PSNR": ".2f"}, strong_rows=frozenset({1}))
    write_page(tmp_path / "t.html", "Demo & more", "Higher is better.", [table])
    page = (tmp_path / "t.html").read_text()
    assert "<h1>Demo &amp; more</h1>" in page
    assert '<td class="text">a&lt;b</td><td>30.12</td>' in page
    assert '<tr class="strong"><td class="text">mean</td><td>–</td></tr>' in page
    assert "http" not in page


def test_notes_have_code_and_links_and_markup_of_their_own_is_escaped(tmp_path):
    table = Table(pd.DataFrame({"a": [1]}), lines=["`x < y`: https://example.org/a.", "second"])
    write_page(tmp_path / "t.html", "Demo", "<i> `code`", [table], ["one", "two `b`"])
    page = (tmp_path / "t.html").read_text()
    assert "<p>&lt;i&gt; <code>code</code></p>" in page
    first, second = re.findall("<li>(.*)</li>", page)
    assert first.startswith('<code>x &lt; y</code>: <a href="https://example.org/a"')
    assert first.endswith(">https://example.org/a</a>.")
    assert second == "second"
    assert "<p>one</p>\n<p>two <code>b</code></p>" in page


def test_a_phone_shows_the_page_in_its_own_width_and_lets_wide_tables_slide(tmp_path):
    frame = pd.DataFrame({"a": [1]})
    write_page(tmp_path / "t.html", "Demo", "", [Table(frame)])
    page = (tmp_path / "t.html").read_text()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert '<div class="wide"><table>' in page
    assert ".wide { overflow-x: auto; }" in page
