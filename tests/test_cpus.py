from __future__ import annotations

import pytest

from vrtspike.cpus import available_cpus


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_cgroup_limits(tmp_path, files, limit):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    free = available_cpus({}, tmp_path / "nothing")
    assert available_cpus({}, tmp_path) == (limit or free)


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_CPUS_PER_TASK": "1"},
        {"SLURM_CPUS_ON_NODE": "1"},
        {"PBS_NCPUS": "1"},
        {"LSB_DJOB_NUMPROC": "1"},
        {"NSLOTS": "1"},
    ],
)
def test_batch_system_limits(tmp_path, environment):
    assert available_cpus(environment, tmp_path) == 1


def test_batch_system_cannot_give_more_than_the_affinity(tmp_path):
    free = available_cpus({}, tmp_path)
    large = {"SLURM_CPUS_PER_TASK": "1000", "SLURM_NTASKS_PER_NODE": "2"}
    assert available_cpus(large, tmp_path) == free
    assert available_cpus({"SLURM_CPUS_PER_TASK": "odd"}, tmp_path) == free
