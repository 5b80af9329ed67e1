"""Slurm's time format, and srun on all nodes and GPUs of a job."""

from __future__ import annotations

import math

import pytest

from vrtspike.cluster.slurm_job import seconds_left, srun_command
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:05", 5.0),
        ("59:59", 3599.0),
        ("2:00:01", 7201.0),
        ("3-01:00:00", 73 * 3600.0),
        ("UNLIMITED", math.inf),
        ("NOT_SET", None),
        ("INVALID", None),
        ("2026-01-01T00:00:00", None),
    ],
)
def test_times_in_the_format_of_slurm(text, expected):
    assert seconds_left(text) == expected


def test_srun_gets_all_nodes_and_gpus_of_the_job(squeue, monkeypatch):
    # Snakemake's job steps lack SLURM_JOB_NUM_NODES: Slurm is queried instead.
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ConfigError, match="NODES is 2, but this is no Slurm job"):
        srun_command(2, 0)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert srun_command(2, "auto")[-2:] == ["--gpus-per-node", "2"]
    assert srun_command(2, 1)[-2:] == ["--gpus-per-node", "1"]
    assert srun_command(2, 0)[-2:] == ["--gres", "none"]
    with pytest.raises(ConfigError, match="NODES is 3, but the Slurm job has 2"):
        srun_command(3, 0)
