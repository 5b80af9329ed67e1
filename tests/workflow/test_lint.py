"""Snakemake's own linter."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.workflow

# The programs run in the environment that runs Snakemake (make setup, or environment.yml by hand).
# One environment per rule would be many copies of PyTorch, and could not be made from a file that
# installs this very checkout.
LEFT_OUT = "Specify a conda environment or container for each rule."


def test_the_linter_finds_nothing_else(repository):
    command = [sys.executable, "-m", "snakemake", "--lint"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    output = done.stdout + done.stderr
    found = re.findall(r"^ +\* (.*?):?$", output, re.MULTILINE)
    # Rules that call a program: if nothing is found, the linter did not run.
    assert len(found) >= 15, output
    assert set(found) == {LEFT_OUT}, output
