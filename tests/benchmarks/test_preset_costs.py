"""What the package knows of costs is what the benchmarks found."""

from __future__ import annotations

from pathlib import Path

import preset_costs
from vrtspike.deblurring.costs import FILE
from vrtspike.io.files import read_json

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_package_s_table_is_that_of_the_results():
    assert read_json(FILE) == preset_costs.costs(BENCHMARKS / "results"), (
        "run: python benchmarks/preset_costs.py"
    )
