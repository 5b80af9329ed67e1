"""CPUs this process may use, on a machine of 64 as the kernel would tell it."""

from __future__ import annotations

import os

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.system.cpus import available_cpus

MACHINE = 64


@pytest.fixture(autouse=True)
def machine(monkeypatch) -> None:
    """With the few CPUs of the machine of the tests, most limits could not be told apart."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(MACHINE)))


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "800000 100000\n"}, 8),
        # Part of a CPU is none that a process could use; less than one is one.
        ({"cpu.max": "390000 100000\n"}, 3),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, MACHINE),
        ({"cpu/cpu.cfs_quota_us": "550000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 11),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, MACHINE),
        ({"cpu.max": "odd\n"}, MACHINE),
        ({}, MACHINE),
    ],
)
def test_limits_of_cgroups_lower_the_number_of_cpus(tmp_path, files, limit):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cpus({}, tmp_path) == limit


@pytest.mark.parametrize(
    ("environment", "limit"),
    [
        ({"SLURM_CPUS_PER_TASK": "6"}, 6),
        ({"SLURM_CPUS_PER_TASK": "6", "SLURM_NTASKS_PER_NODE": "4"}, 24),
        ({"SLURM_CPUS_PER_TASK": "6", "SLURM_CPUS_ON_NODE": "20"}, 6),
        ({"SLURM_CPUS_ON_NODE": "20"}, 20),
        ({"PBS_NCPUS": "7"}, 7),
        ({"NCPUS": "9"}, 9),
        ({"LSB_DJOB_NUMPROC": "11"}, 11),
        ({"NSLOTS": "13"}, 13),
        ({"NSLOTS": "0"}, MACHINE),
        ({"SLURM_CPUS_PER_TASK": "odd"}, MACHINE),
        # It cannot give more than the affinity leaves.
        ({"SLURM_CPUS_PER_TASK": "1000", "SLURM_NTASKS_PER_NODE": "2"}, MACHINE),
    ],
)
def test_batch_system_limits(tmp_path, environment, limit):
    assert available_cpus(environment, tmp_path) == limit


def test_the_smallest_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text("800000 100000\n")
    assert available_cpus({"NSLOTS": "20"}, tmp_path) == 8
    assert available_cpus({"NSLOTS": "5"}, tmp_path) == 5
    # What the workflow gives a job is part of what the batch system gave Snakemake.
    assert available_cpus({"NSLOTS": "5", "VRTSPIKE_CPUS": "3"}, tmp_path) == 3
    assert available_cpus({"NSLOTS": "5", "VRTSPIKE_CPUS": "40"}, tmp_path) == 5
    assert available_cpus({"VRTSPIKE_CPUS": ""}, tmp_path) == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert available_cpus({"NSLOTS": "5"}, tmp_path) == 2
    # Without an argument, the variables of this process.
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert available_cpus(cgroups=tmp_path) == 1


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "2000"), ({"GOMP_SPINCOUNT": "77"}, "77")]
)
def test_threads_of_every_program_sleep_while_they_wait(monkeypatch, environment, expected):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    program = f"import os, vrtspike; print(*map(os.environ.get, {names}))"
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert run_python("-c", program, env=environment).stdout == f"PASSIVE {expected}\n"
