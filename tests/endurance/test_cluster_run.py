"""Runs on a real Slurm cluster: from raw data to the report, on two nodes, with accounting."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from tests.endurance.submitted import TIMEOUT_S, OnCluster
from tests.workflow.cluster import missing, start_cluster
from tests.workflow.project import tiny_project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def accounted(repository, tmp_path) -> Iterator[OnCluster]:
    """A project on a cluster with accounting, whose controller forgets a job when it has ended."""
    if reason := missing(accounting=True):
        pytest.skip(reason)
    project = tiny_project(repository, tmp_path / "project")
    project.make("results/data/tiny/k8/dataset.json")
    with start_cluster(accounting=True, min_job_age=2) as cluster:
        yield OnCluster(project, cluster)


def test_from_raw_data_to_the_report(cluster, repository, tmp_path_factory):
    """Every stage that computes is a job of the cluster; its result is that of this machine."""
    project = tiny_project(repository, tmp_path_factory.mktemp("raw") / "project")
    on = OnCluster(project, cluster)
    with on.start("report", "--config", "PRESETS=[tiny]") as run:
        output = run.finish()
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
    # Without a periodic checkpoint: what there is was saved when the signal came.
    steps = "{MAX_STEPS: 16, SAVE_EVERY_STEPS: 1000}"
    prepared.project.write("config/presets/nodes.yaml", f"BASE: tiny\nTRAIN: {steps}\n")
    prepared.project.write("nodes.yaml", "NODES: 2\nGPUS: 1\n")
    runs = prepared.project.folder / "runs/nodes"
    with prepared.start("train_nodes", "--configfile", "nodes.yaml") as run:
        run.wait_until(
            lambda: any('"train"' in p.read_text() for p in runs.glob("*/metrics.jsonl"))
        )
        running = prepared.cluster.call("squeue", "-h", "-t", "running", "-o", "%i %D %b")
        job, nodes, devices = running.split()
        assert (nodes, devices) == ("2", "gres:gpu:1")
        prepared.cluster.call("scancel", "--signal=TERM", job)
        ended = re.compile(r"JobState=FAILED .*ExitCode=1:0", re.DOTALL)
        run.wait_until(lambda: bool(ended.search(prepared.cluster.job(job))))
        record = prepared.record("nodes")
        output = run.finish()
    assert record["processes"] == 2
    assert record["starts"][0]["batch_job"] == job
    starts = prepared.published("nodes")["starts"]
    assert [start["step"] for start in starts] == [0, record["step"]]
    assert 0 < record["step"] < 16
    assert re.search(rf"saved at step {record['step']} of 16; the same command continues", output)


def forgotten(on: OnCluster, job: str) -> bool:
    """Whether the controller knows nothing of a job any more."""
    return job not in on.cluster.jobs()


def test_a_job_that_left_the_queue_is_looked_up_in_the_accounting(accounted: OnCluster):
    """Snakemake is stopped while its jobs end, so that it never sees them in the queue at the end.

    The first is cancelled, the second ends well.
    """
    accounted.preset("young", 8)
    with accounted.start("train_young", slurm_account="lab") as run:
        for number in (1, 2):
            run.wait_until(lambda: len(accounted.cluster.jobs("running")) == 1)
            (job,) = accounted.cluster.jobs("running")
            if number == 1:
                run.wait_until(lambda: accounted.saved("young") >= 1)
            run.process.send_signal(signal.SIGSTOP)
            if number == 1:
                accounted.cluster.call("scancel", job)
            run.wait_until(lambda job=job: forgotten(accounted, job))
            run.process.send_signal(signal.SIGCONT)
        output = run.finish()
    assert len(re.findall(r"it was cancelled, by scancel or by the site", output)) == 1
    assert output.count("error:") == 1
    first, second = accounted.published("young")["starts"]
    assert first["step"] == 0 < second["step"]
    accounts = accounted.cluster.call("sacct", "-X", "-n", "-o", "account%20")
    assert set(accounts.split()) == {"lab"}


def test_an_account_that_does_not_exist_is_refused_with_slurms_words(accounted: OnCluster):
    accounted.preset("poor", 2)
    with accounted.start("train_poor", "--retries", "0", slurm_account="nobody") as run:
        assert run.process.wait(600) != 0
        output = run.output
    assert "error: train poor failed (Slurm refused it: sbatch: error: " in output
    assert "Invalid account" in output
    assert accounted.cluster.jobs() == []
