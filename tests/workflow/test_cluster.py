"""Training on two nodes of a real Slurm cluster, by way of the profile."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing, start_cluster

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

# Without a periodic checkpoint: what is continued from was saved when the signal came.
STEPS = "SETTINGS: {TRAIN: {MAX_STEPS: 20, SAVE_EVERY_STEPS: 1000}}\n"
NODES = "NODES: 2\nGPUS: 1\n"
# What the profile marks as a matter of the site, for a cluster this small.
SITE = (
    *("--default-resources", "slurm_account=none", "slurm_partition=test", "mem_mb=1000"),
    *("--set-resources", "train:slurm_partition=test", "train:mem_mb=3000", "train:runtime=10"),
    *("--set-threads", "train=2"),
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # Paths of sockets are limited to about a hundred characters.
    with tempfile.TemporaryDirectory() as folder, start_cluster(Path(folder)) as started:
        yield started


def wait_for(found: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def steps_in(folder: Path) -> list[int]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record["step"] for line in lines if (record := json.loads(line))["kind"] == "train"]


def test_two_nodes_stop_together_and_the_run_can_be_continued(tiny, cluster):
    """NODES and GPUS stand in the configuration only; the signal is the one before the wall time.

    Snakemake looks at its jobs every half minute or so: its retry is left out, the run is continued
    by a second call, on this machine alone.
    """
    tiny.make("results/data/tiny/k8/dataset.json")
    tiny.write("steps.yaml", STEPS)
    tiny.write("nodes.yaml", NODES)
    options = ("--profile", "workflow/profiles/slurm", *SITE)
    log = tiny.folder / "snakemake.log"
    with log.open("w") as stream:
        snakemake = subprocess.Popen(
            tiny.command("train_long", *options, "--configfile", "steps.yaml", "nodes.yaml"),
            cwd=tiny.folder,
            env={**tiny.environment, **cluster.environment, "OMP_NUM_THREADS": "1"},
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: any(tiny.folder.glob("runs/long/*/metrics.jsonl")), log.read_text())
        (folder,) = tiny.folder.glob("runs/long/*")
        wait_for(lambda: len(steps_in(folder)) > 0, log.read_text())
        job, nodes, devices = cluster.call("squeue", "-h", "-o", "%i %D %b").split()
        cluster.call("scancel", "--signal=TERM", job)
        assert (nodes, devices) == ("2", "gres:gpu:1")
        wait_for(lambda: "JobState=RUNNING" not in cluster.job(job), log.read_text())
    finally:
        snakemake.kill()
        snakemake.wait()
    # What makes Snakemake try again.
    assert re.search(r"JobState=FAILED .*ExitCode=1:0", cluster.job(job), re.DOTALL)
    run = json.loads((folder / "run.json").read_text())
    assert (run["status"], run["processes"]) == ("interrupted", 2)
    assert run["starts"][0]["batch_job"] == job
    stopped = run["step"]
    assert len(steps_in(folder)) == stopped < 20

    tiny.make("train_long", "--configfile", "steps.yaml")
    run = json.loads((folder / "run.json").read_text())
    assert (run["status"], run["processes"]) == ("finished", 1)
    assert [start["step"] for start in run["starts"]] == [0, stopped]
    assert steps_in(tiny.folder / "results/train/long") == list(range(1, 21))
