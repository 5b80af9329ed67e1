"""What a job of a real Slurm cluster tells about itself."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from workflow.cluster import Cluster, missing, start_cluster

from vrtspike.errors import ConfigError
from vrtspike.training.batch_system import MARGIN_S, TimeLimit, step_on_every_node, time_limit

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder, start_cluster(Path(folder)) as started:
        yield started


@pytest.fixture
def here(cluster, monkeypatch) -> Cluster:
    """The cluster, spoken to by programs this process starts."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster


def submit(cluster: Cluster, *options: str) -> str:
    command = ["sbatch", "--parsable", "--output=/dev/null", "--mem=100", *options]
    job = cluster.call(*command, "--wrap", "exec sleep 100").strip()
    while "JobState=RUNNING" not in cluster.job(job):
        time.sleep(0.1)
    return job


def test_training_is_asked_before_the_end_of_its_job(here):
    job = submit(here, "--time=10")
    limit = time_limit({"SLURM_JOB_ID": job})
    left = limit.seconds()
    assert 300 < left <= 600 - MARGIN_S
    assert not limit.is_near()
    # Someone shortens the job.
    here.call("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    assert limit.is_near()
    # Of a short job, a quarter is kept.
    assert 20 < TimeLimit(job).seconds() <= 45


def test_a_job_without_a_limit_is_never_asked(here):
    assert TimeLimit(submit(here, "--time=UNLIMITED")).seconds() is None
    assert time_limit({}) is None


def test_a_step_has_every_node_and_as_many_gpus(here, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", submit(here, "--nodes=2", "--time=1"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert step_on_every_node(2, "auto")[-2:] == ["--gpus-per-node", "2"]
    assert step_on_every_node(2, 1)[-2:] == ["--gpus-per-node", "1"]
    command = step_on_every_node(2, 0)
    assert command[-2:] == ["--gres", "none"]
    shown = here.call(*command, "sh", "-c", "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES")
    assert sorted(shown.split()) == ["n0:", "n1:"]
    with pytest.raises(subprocess.CalledProcessError):
        here.call(*command, "sh", "-c", "[ $SLURMD_NODENAME = n0 ] && exit 2; sleep 100")
    with pytest.raises(ConfigError, match="NODES is 3, but the Slurm job has 2"):
        step_on_every_node(3, 0)
