"""docs/datasets.md is made from the table of public data sets."""

from __future__ import annotations

import re
import shutil

from tests.helpers.concurrency import run_python
from vrtspike.commands.public_sets.table import read_public_sets


def make_page(repository, *words):
    return run_python(str(repository / "scripts/datasets_page.py"), *words, cwd=repository)


def test_the_page_is_up_to_date(repository):
    done = make_page(repository, "--check")
    assert done.returncode == 0, done.stderr
    text = (repository / "docs/datasets.md").read_text(encoding="utf-8")
    for entry in read_public_sets():
        assert len(re.findall(rf"^\| {re.escape(entry.name)} \|", text, re.MULTILINE)) >= 2


def test_an_old_page_is_refused_and_written_anew(repository, tmp_path):
    page = tmp_path / "datasets.md"
    shutil.copy(repository / "docs/datasets.md", page)
    current = page.read_text(encoding="utf-8")
    page.write_text(current.replace("9.5 GB", "9.6 GB"), encoding="utf-8")
    done = make_page(repository, "--check", str(page))
    assert done.returncode == 2
    assert "older than public_sets.toml; run scripts/datasets_page.py" in done.stderr
    assert "9.6 GB" in page.read_text(encoding="utf-8")
    assert make_page(repository, str(page)).returncode == 0
    assert page.read_text(encoding="utf-8") == current


def test_a_page_without_a_marker_is_refused(repository, tmp_path):
    page = tmp_path / "datasets.md"
    page.write_text("# Sets\n", encoding="utf-8")
    done = make_page(repository, str(page))
    assert done.returncode == 2
    assert "found no <!-- from public_sets.toml: folders -->, expected one above" in done.stderr
    assert page.read_text(encoding="utf-8") == "# Sets\n"
