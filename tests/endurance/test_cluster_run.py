"""Runs on a real Slurm cluster: from raw data to the report, on two nodes."""

from __future__ import annotations

import re

import pytest

from tests.endurance.submitted import TIMEOUT_S, OnCluster
from tests.workflow.project import tiny_outside_project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(TIMEOUT_S))


@pytest.mark.core
def test_from_raw_data_to_the_report(cluster, repository, tmp_path_factory):
    """Every stage that computes is a job of the cluster; its result is that of this machine.

    The project lies outside the clone, as most on a cluster do.
    """
    project = tiny_outside_project(repository, tmp_path_factory.mktemp("raw") / "project")
    on = OnCluster(project, cluster)
    with on.start("report", "--config", "PRESETS=[tiny]") as run:
        output = run.succeed()
    assert re.search(r"^done in \d+:\d\d$", output, re.MULTILINE)
    assert "error:" not in output
    assert (project.folder / "results/index.html").is_file()
    assert (project.folder / "results/report.html").is_file()
    listed = cluster.call("squeue", "-h", "-t", "all", "-o", "%k %T")
    comments = [line.split()[0] for line in listed.splitlines()]
    assert {line.split()[1] for line in listed.splitlines()} == {"COMPLETED"}
    rules = {re.sub("_wildcards.*", "", comment) for comment in comments}
    assert {"rule_ingest", "rule_voxelize", "rule_train", "rule_evaluate"} <= rules
    # The same command has nothing left to do, on the cluster or here.
    assert "Nothing to be done" in project.make("report", "--config", "PRESETS=[tiny]")
    # What is done on nodes is what is done here with as many threads, to the bit.
    weights = project.folder / "results/train/tiny/weights.safetensors"
    made_by_jobs = weights.read_bytes()
    here = ("--config", "RESULTS=here", "RUNS=runs_here")
    project.make("train_tiny", *here, "--set-threads", "train=1")
    assert (project.folder / "here/train/tiny/weights.safetensors").read_bytes() == made_by_jobs


def test_two_nodes_stop_together_before_the_wall_time(prepared: OnCluster):
    """NODES and GPUS stand in the configuration only; a job that stopped is continued."""
    # Without a periodic checkpoint: what there is was saved when the signal came, which is after
    # the first validation.
    steps = "TRAIN: {MAX_STEPS: 16, SAVE_EVERY_STEPS: 1000}\nLOG: {VAL_EVERY_STEPS: 4}"
    prepared.project.write("config/presets/nodes.yaml", f"BASE: tiny\n{steps}\n")
    prepared.project.write("nodes.yaml", "NODES: 2\nGPUS: 1\n")
    with prepared.start(
        "train_nodes", "--configfile", "nodes.yaml", stops_at=r"/best\.safetensors$"
    ) as run:
        with run.held("rank"):
            running = prepared.cluster.call("squeue", "-h", "-t", "running", "-o", "%i %D %b")
            job, nodes, devices = running.split()
            assert (nodes, devices) == ("2", "gres:gpu:1")
            prepared.cluster.call("scancel", "--signal=TERM", job)
        ended = re.compile(r"JobState=FAILED .*ExitCode=1:0", re.DOTALL)
        run.wait_for(lambda: bool(ended.search(prepared.cluster.job(job))))
        record = prepared.record("nodes")
        output = run.succeed()
    assert record["processes"] == 2
    assert record["starts"][0]["batch_job"] == job
    starts = prepared.published("nodes")["starts"]
    assert [start["step"] for start in starts] == [0, record["step"]]
    assert 0 < record["step"] < 16
    assert re.search(rf"saved at step {record['step']} of 16; the same command continues", output)
