"""Disks that are full, folders that cannot be written: reported by name, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.disks import full, missing, small_disk
from tests.faults.processes import CHECKPOINT, started, stop_at
from tests.faults.results import leftovers, results
from tests.workflow.project import Project

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

DATA = "results/data/tiny"
STAGES = {
    "report": "results/report.html",
    "page": "results/index.html",
    "compare": "results/compare/table.csv",
    "analyze_performance": "results/performance/tiny/findings.json",
    "evaluate": "results/evaluate/tiny/summary.json",
    "train": "results/train/tiny/weights.safetensors",
    "statistics": f"{DATA}/k8/dataset.json",
    "voxelize": f"{DATA}/k8/dataset.json",
    "accept": f"{DATA}/k8/accepted.json",
    "alignment": f"{DATA}/alignment.csv",
    "ingest": f"{DATA}/alignment.csv",
    "survey": f"{DATA}/survey.json",
}
"""Every stage and a target, from the last one back: what a stage reads is there."""


@pytest.fixture
def project(undisturbed: Undisturbed, tmp_path: Path) -> Iterator[Project]:
    """A finished project whose results and runs stand on small disks of their own."""
    copy = undisturbed.copy(tmp_path / "project", "training")
    with ExitStack() as stack:
        for name, megabytes in (("results", 64), ("runs", 400)):
            aside = (copy.folder / name).rename(tmp_path / name)
            stack.enter_context(small_disk(copy.folder / name, megabytes))
            # `cp` keeps dates to the nanosecond.
            subprocess.run(["cp", "-a", f"{aside}/.", str(copy.folder / name)], check=True)
        yield copy


OFTEN = ("report", "evaluate", "voxelize", "ingest")
"""Stages that write much; a training has a test of its own."""


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(OFTEN, id="often", marks=pytest.mark.core),
        pytest.param([rule for rule in STAGES if rule not in OFTEN], id="rarely"),
    ],
)
def test_a_full_disk_is_reported_in_each_stage_and_needs_only_room(project, undisturbed, rules):
    for rule in rules:
        target = STAGES[rule]
        # Its log stands on the same disk.
        with full(project.folder / "results"):
            done = project.snakemake("--cores", "2", "--forcerun", rule, "--", target)
        assert done.returncode != 0, rule
        for text in (f"error: {rule}", "the disk is full", "results/logs/"):
            assert text in done.stdout, done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        assert leftovers(project.folder) == [], rule
    project.make("all")
    assert results(project.folder) == undisturbed.results


@pytest.mark.core
def test_a_disk_that_gets_full_in_a_training_costs_no_step(project, undisturbed):
    for name in ("runs/tiny", "results/train"):
        shutil.rmtree(project.folder / name)
    call = project.command("--cores", "2", "train_tiny")
    event = stop_at(project.folder, 2, publishes=CHECKPOINT)
    with started(project, *call, environment=event) as command, ExitStack() as stack:
        with command.held("rank"):
            stack.enter_context(full(project.folder / "runs"))
        assert command.wait() != 0
        output = command.text
        assert command.orphans() == []
    assert "the disk is full" in output
    assert "runs/tiny/" in output
    assert "Traceback" not in output
    assert leftovers(project.folder) == []
    project.make("train_tiny")
    assert results(project.folder) == undisturbed.results
