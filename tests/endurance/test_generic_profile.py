"""The profile for batch systems without an executor of their own, on a real Slurm cluster."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager

import pytest

from tests.endurance.submitted import OnCluster, Run, started
from tests.workflow.project import tiny_project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]

# What the profile marks as a matter of the site, for a cluster this small.
SITE = (
    *("--default-resources", "batch_system=slurm", "queue=test", "account=none", "gpu=0"),
    *("batch_extra=''", "mem_mb=1000", "disk_mb=1000", "runtime=30"),
    *("--set-resources", "train:queue=test", "train:mem_mb=3000", "train:runtime=30"),
    *("--set-threads", "train=2", "ingest=2", "voxelize=2"),
)


def start(on: OnCluster, *arguments: str) -> AbstractContextManager[Run]:
    """Snakemake with the generic profile; its jobs go on when the block ends."""
    # The executor may stand on the path of the tests.
    paths = [str(on.project.folder / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**on.environment, "PYTHONPATH": os.pathsep.join(paths)}
    call = on.project.command(*arguments, "--profile", "workflow/profiles/generic", *SITE)
    return started(call, on.project.folder, environment)


def steps_of(on: OnCluster, preset: str) -> list[int]:
    files = (on.project.folder / "runs" / preset).glob("*/metrics.jsonl")
    records = [json.loads(line) for path in files for line in path.open()]
    return [record["step"] for record in records if record["kind"] == "train"]


@pytest.mark.timeout(900)
def test_from_raw_data_to_weights_with_snakemake_killed_in_between(cluster, repository, tmp_path):
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    on = OnCluster(tiny_project(repository, tmp_path / "project"), cluster)
    # Long enough to be met in the middle.
    on.preset("goes_on", steps=15)
    try:
        with start(on, "train_goes_on") as run:
            run.wait_until(lambda: on.saved("goes_on") > 0)
            run.kill()
        (job,) = cluster.call("squeue", "-h", "-o", "%i").split()
        with start(on, "train_goes_on") as run:
            run.finish()
        # The job that lived on was not disturbed: each step was taken once.
        assert "JobState=COMPLETED" in cluster.job(job)
        assert steps_of(on, "goes_on") == list(range(1, 16))
        assert on.published("goes_on")["step"] == 15
    finally:
        on.clear()
