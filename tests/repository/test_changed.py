"""The tests that ``make quick`` selects, and those that ``make test`` leaves out."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.changed import main, select_tests

FRAME_SOURCE = [
    "evaluation/test_measure.py",
    "evaluation/test_protocols.py",
    "restoration/inference/test_tiling.py",
]
"""Test files that import the helper."""


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/vrtspike/io/files.py", ["io/test_files.py"]),
        ("src/vrtspike/data/raw/layouts/spk_gopro.py", ["data/raw/test_layouts.py"]),
        ("src/vrtspike/metrics/lpips.py", ["metrics/test_registry.py"]),
        ("tests/io/test_locks.py", ["io/test_locks.py"]),
        ("tests/io/test_removed.py", []),
        ("tests/helpers/frame_source.py", FRAME_SOURCE),
        ("tests/metrics/conftest.py", ["metrics"]),
        ("tests/conftest.py", ["repository/test_skips.py"]),
        ("src/vrtspike/reporting/assets/charts.js", ["reporting"]),
        ("src/vrtspike/config/chinese.toml", ["config"]),
        ("src/snakemake_executor_plugin_slurm_vrtspike/executor.py", ["cluster/test_executor.py"]),
        ("src/snakemake_logger_plugin_vrtspike/__init__.py", ["workflow/test_logger_plugin.py"]),
        ("docs/model.md", []),
    ],
)
def test_make_quick_runs_the_tests_of_changed_files(repository, changed, tests):
    assert select_tests([changed]) == [repository / "tests" / name for name in tests]


def test_a_helper_selects_the_tests_that_reach_it_through_others(repository):
    """``tests/data/scenes.py`` is imported by ``tests/deblurring/tiny_run.py``, for a fixture."""
    selected = select_tests(["tests/data/scenes.py", "tests/deblurring/test_task.py"])
    assert repository / "tests/deblurring" in selected
    assert repository / "tests/deblurring/test_task.py" not in selected


def test_make_quick_names_files_without_tests(capsys):
    main(["docs/model.md", "src/vrtspike/io/files.py", "Makefile"])
    shown = capsys.readouterr()
    assert shown.out.strip().endswith("tests/io/test_files.py")
    message = "no tests selected, besides tests/repository, for docs/model.md Makefile\n"
    assert shown.err == message


def test_make_test_ends_with_what_it_leaves_out(repository):
    listed = subprocess.run(
        ["make", "--dry-run", "test"], cwd=repository, capture_output=True, text=True, check=True
    )
    # Within another make, a line on the folder follows.
    (line,) = [line for line in listed.stdout.splitlines() if "not run: make core" in line]
    parent, names = re.search(r"(\S+)\{(.*)\}/", line).groups()
    folders = ["rules", *(f"{parent}{name}" for name in names.split(","))]
    assert len(folders) == 5
    assert [folder for folder in folders if not (repository / folder).is_dir()] == []
