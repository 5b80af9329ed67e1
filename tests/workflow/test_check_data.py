"""The target ``check_data``: the stages up to the acceptance, and no training."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.workflow


def planned(done) -> list[str]:
    """The stages that a plan lists, sorted."""
    assert done.returncode == 0, done.stdout
    return sorted(set(re.findall(r"^(\w+)\b.*: no result yet$", done.stdout, re.MULTILINE)))


def test_check_data_ends_at_acceptance(uncomputed_project):
    done = uncomputed_project.snakemake("--dry-run", "check_data")
    assert planned(done) == ["accept", "alignment", "ingest", "survey"]


def test_check_data_of_another_task_prepares_its_data(cloned_project):
    done = cloned_project.snakemake("--dry-run", "check_data", "--config", "PRESETS=sst_demo")
    assert planned(done) == ["prepare"]
