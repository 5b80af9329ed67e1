"""Disks that are full, and folders that cannot be written: told by name, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.disks import full, missing, read_only, small_disk
from tests.faults.processes import started
from tests.faults.results import leftovers, results
from tests.faults.training import held_in_training
from tests.workflow.project import Project

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.workflow,
    pytest.mark.timeout(900),
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
            folder = copy.folder / name
            stack.enter_context(_moved(folder, megabytes))
        yield copy


def _moved(folder: Path, megabytes: int) -> ExitStack:
    """Put a small disk where a folder is, with the same contents."""
    aside = folder.with_name(f"{folder.name}-aside")
    folder.rename(aside)
    stack = ExitStack()
    stack.enter_context(small_disk(folder, megabytes))
    # `cp` keeps dates to the nanosecond.
    subprocess.run(["cp", "-a", f"{aside}/.", str(folder)], check=True)
    shutil.rmtree(aside)
    return stack


def tells_full(project: Project, done: subprocess.CompletedProcess[str], rule: str) -> None:
    """A stage has failed, said why in plain words, and left nothing half."""
    assert done.returncode != 0, rule
    assert f"error: {rule}" in done.stdout, done.stdout
    assert "the disk is full" in done.stdout, done.stdout
    assert "results/logs/" in done.stdout, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    assert leftovers(project.folder) == [], rule


def test_a_full_disk_is_told_in_each_stage_and_room_is_all_it_takes(project, undisturbed):
    for rule, target in STAGES.items():
        # Its log stands on the same disk.
        with full(project.folder / "results"):
            done = project.snakemake("--cores", "2", "--forcerun", rule, "--", target)
        tells_full(project, done, rule)
    project.make("all")
    assert results(project.folder) == undisturbed.results


def test_a_full_disk_is_told_by_an_ablation_and_room_is_all_it_takes(project):
    # Spikes can be shuffled from three frames on.
    project.write(
        "config/presets/short.yaml",
        "BASE: tiny\nDATA: {CLIP_LEN: 3}\nMODEL: {FUSE: {INIT: random}}\nTRAIN: {MAX_STEPS: 2}\n",
    )
    project.make("ablation_short")
    table = project.folder / "results/ablation/short/table.csv"
    whole = table.read_bytes()
    for rule, name in (("ablation_report", "report.html"), ("ablation", "table.csv")):
        with full(project.folder / "results"):
            done = project.snakemake(
                *("--cores", "2", "--forcerun", f"{rule}_of_preset"),
                *("--", f"results/ablation/short/{name}"),
            )
        tells_full(project, done, rule)
    assert not table.exists()
    project.make("ablation_short")
    assert table.read_bytes() == whole
    assert (table.parent / "report.html").exists()


def test_a_disk_that_gets_full_in_a_training_costs_no_step(project, undisturbed):
    for name in ("runs/tiny", "results/train"):
        shutil.rmtree(project.folder / name)
    call = project.command("--cores", "2", "train_tiny")
    with started(project, *call) as command, ExitStack() as stack:
        with held_in_training(command, project, 0, 3):
            stack.enter_context(full(project.folder / "runs"))
        assert command.wait() != 0
        said = command.text
        assert command.orphans() == []
    assert "the disk is full" in said
    assert "runs/tiny/" in said
    assert "Traceback" not in said
    assert leftovers(project.folder) == []
    project.make("all")
    assert results(project.folder) == undisturbed.results


def test_a_full_disk_is_told_where_data_are_made(project):
    data = project.folder / "made"
    frames = project.folder / "data/tiny/train/GOPR0001_11_00/sharp"
    project.write(
        "made.yaml",
        "DEMO: {ROOT: made/demo}\n"
        "SIMULATE:\n  ROOT: made/simulated\n  SEQUENCES:\n"
        f"  - {{FRAMES: {frames}, SPLIT: train, SEQUENCE: a, FRAMES_PER_EXPOSURE: 1}}\n",
    )
    with small_disk(data, 64):
        for target in ("made/demo/sources.txt", "made/simulated/sources/train/a.txt"):
            call = ("--cores", "2", "--configfile", "made.yaml", "--", target)
            with full(data):
                done = project.snakemake(*call)
            assert done.returncode != 0
            assert "the disk is full" in done.stdout, done.stdout
            assert "made/" in done.stdout, done.stdout
            assert not [*data.rglob(".*")]


def test_results_that_cannot_be_written_are_named(project, undisturbed):
    folder = project.folder / "results"
    with read_only(folder):
        for rule, target in (("report", STAGES["report"]), ("train", STAGES["train"])):
            done = project.snakemake("--cores", "2", "--forcerun", rule, "--", target)
            assert done.returncode != 0
            assert "Read-only file system" in done.stdout, done.stdout
            assert "results" in done.stdout
            assert "Traceback" not in done.stdout, done.stdout
        # To read is all that a plan needs.
        assert "Nothing to be done" in project.snakemake("--dry-run", "all").stdout
    with read_only(project.folder / "runs"):
        done = project.snakemake("--cores", "2", "train_tiny", "--config", "SETTINGS={SEED: 5}")
        assert done.returncode != 0
        assert "runs/tiny" in done.stdout
        assert "mend it or its permissions" in done.stdout, done.stdout
    project.make("all")
    assert results(project.folder) == undisturbed.results
