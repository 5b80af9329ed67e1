"""The profile for batch systems without an executor of their own, on a real Slurm cluster."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

import pytest

from tests.endurance.submitted import SECOND_STEP, OnCluster
from tests.faults.processes import Command, stop_at
from tests.workflow.project import tiny_project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]

# What the profile marks as a matter of the site, for a cluster this small.
SITE = (
    *("--default-resources", "batch_system=slurm", "queue=test", "account=none", "gpu=0"),
    *("batch_extra=''", "mem_mb=1000", "disk_mb=1000", "runtime=30"),
    *("--set-resources", "train:queue=test", "train:mem_mb=3000", "train:runtime=30"),
    *("--set-threads", "train=2", "ingest=2", "voxelize=2"),
)


def start(
    on: OnCluster, *arguments: str, minutes: int = 30, event: dict[str, str] | None = None
) -> AbstractContextManager[Command]:
    """Snakemake with the generic profile."""
    site = [word.replace("train:runtime=30", f"train:runtime={minutes}") for word in SITE]
    profile = ("--profile", "workflow/profiles/generic")
    return on.call(*arguments, *profile, *site, environment=event or {})


def steps_of(on: OnCluster, preset: str) -> list[int]:
    files = (on.project.folder / "runs" / preset).glob("*/metrics.jsonl")
    records = [json.loads(line) for path in files for line in path.open()]
    return [record["step"] for record in records if record["kind"] == "train"]


def test_from_raw_data_to_weights_with_snakemake_killed_in_between(cluster, repository, tmp_path):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    on = OnCluster(tiny_project(repository, tmp_path / "project"), cluster)
    on.preset("goes_on", steps=15)
    event = stop_at(on.project.folder, publishes=SECOND_STEP)
    try:
        with start(on, "train_goes_on", event=event) as killed:
            with killed.held("rank"):
                killed.process.kill()
                (job,) = cluster.call("squeue", "-h", "-o", "%i").split()
            with start(on, "train_goes_on") as run:
                run.succeed()
        # The job that lived on was not disturbed: each step was taken once.
        assert "JobState=COMPLETED" in cluster.job(job)
        assert steps_of(on, "goes_on") == list(range(1, 16))
        assert on.published("goes_on")["step"] == 15
    finally:
        cluster.end_jobs()


def test_a_training_goes_on_after_its_wall_time(cluster, repository, tmp_path):
    """Without any retry; a job of a minute is stopped after three quarters of it."""
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    on = OnCluster(tiny_project(repository, tmp_path / "project"), cluster)
    on.preset("long", steps=100_000)
    try:
        with start(on, "train_long", "--retries", "0", minutes=1) as run:
            run.wait_for(lambda: len(on.record("long").get("starts", [])) == 2)
            output = run.text
        cluster.end_jobs()
        assert "error:" not in output
        first, second = on.record("long")["starts"]
        assert first["step"] == 0 < second["step"]
    finally:
        cluster.end_jobs()
