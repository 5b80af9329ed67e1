"""Snakemake's own linter."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.workflow


def lint(folder):
    command = [sys.executable, "-m", "snakemake", "--lint"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_linter_finds_nothing(repository):
    done = lint(repository)
    output = done.stdout + done.stderr
    assert "your workflow is in a good condition" in output
    assert done.returncode == 0
    assert "Lints for" not in output


def test_the_linter_looks_at_the_rules(clone):
    """If it did not, it would find nothing, whatever they are."""
    container = 'container: "workflow/containers/vrtspike.sif"'
    with clone.replaced("workflow/Snakefile", container, ""):
        done = lint(clone.folder)
    # A rule that calls a program is told without one.
    found = re.findall(r"^ +\* (.*?):?$", done.stdout + done.stderr, re.MULTILINE)
    assert len(found) >= 15
    assert set(found) == {"Specify a conda environment or container for each rule."}
