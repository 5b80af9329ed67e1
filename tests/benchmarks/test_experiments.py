"""Experiments whose results are kept, and the pages that show them."""

from __future__ import annotations

import pytest

import experiments
from experiments import Variant

VARIANTS = {"**it**": Variant({"A": 1}, (0, 7)), "other": Variant({"A": 2}, (0,))}
RUNS = {
    "**it**": {"0": {"psnr": 29.0, "tof": 1.0}, "7": {"psnr": 30.0, "tof": 2.0}},
    "former": {"0": {"psnr": 28.0, "tof": 3.0}},
    "other": {"0": {"psnr": 27.0, "tof": 4.0}},
}


def test_the_table_has_means_ranges_and_former_variants():
    table = experiments.variants_table(VARIANTS, RUNS, {"tof": ("tOF, px", 1)})
    assert table.splitlines()[2:] == [
        "| **it** | 29.50 | 29.00 to 30.00 | 1.5 |",
        "| other | 27.00 | one seed | 4.0 |",
        "| *former* | 28.00 | one seed | 3.0 |",
    ]
    runs = {"**it**": {"0": {"psnr": 29.0, "frame": 33.0}}, "other": RUNS["other"]}
    rows = experiments.variants_table(VARIANTS, runs, {"frame": ("a frame", 1)}).splitlines()
    assert rows[2:] == ["| **it** | 29.00 | one seed | 33.0 |", "| other | 27.00 | one seed | - |"]


def test_only_the_part_of_a_program_changes_and_an_outdated_page_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a.py: begin -->\n\nold\n\n<!-- a.py: end -->\nafter\n")
    text = experiments.with_part(page, "a.py", "new")
    assert text == "before\n<!-- a.py: begin -->\n\nnew\n\n<!-- a.py: end -->\nafter\n"
    with pytest.raises(SystemExit, match=r"page.md is outdated; run: python benchmarks/a.py"):
        experiments.require_current(page, text, "a.py")
