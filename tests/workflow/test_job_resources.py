"""Devices of a machine, for plans that are written down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.system.errors import RunError
from vrtspike.workflow.job_resources import ALL_CORES, LocalDevices
from vrtspike.workflow.snakemake_internals import DueJob


def devices(
    gpus, here=2, due=("train a", "train b"), local=True, cores: int | None = 40
) -> LocalDevices:
    """Of a machine with ``here`` GPUs and these jobs to do."""

    def job(name: str) -> DueJob:
        rule, preset = name.split()
        return DueJob(rule, {"preset": preset}, (name,))

    jobs = [DueJob("statistics", {"dataset": "d"}, ("data",)), *map(job, due)]
    snakemake = SimpleNamespace(runs_locally=local, cores=cores, due_jobs=lambda: jobs)
    return LocalDevices(gpus, snakemake, lambda: here)


@pytest.mark.parametrize(
    ("case", "gpus", "threads"),
    [
        # Two presets on two GPUs train at once, each with half of the machine.
        ({"gpus": "auto"}, 1, 20),
        ({"gpus": 1}, 1, 20),
        # One alone gets all of it; as many GPUs as it is told.
        ({"gpus": "auto", "due": ["train a"]}, 2, 40),
        ({"gpus": 1, "due": ["train a"]}, 1, 40),
        # One after the other where each takes all GPUs, or there is only one.
        ({"gpus": 2}, 2, 40),
        ({"gpus": "auto", "here": 1}, 1, 40),
        # On the CPU side by side.
        ({"gpus": "auto", "here": 0}, 0, 20),
        ({"gpus": 0}, 0, 20),
        ({"gpus": 0, "due": ["train a"]}, 0, 40),
        # More GPUs than trainings, more trainings than GPUs.
        ({"gpus": "auto", "here": 8}, 4, 20),
        ({"gpus": 1, "here": 8}, 1, 20),
        ({"gpus": "auto", "due": ["train a", "train b", "evaluate c"]}, 1, 20),
        # Its own evaluation comes after it; that of another preset may come beside it.
        ({"gpus": "auto", "due": ["train a", "evaluate a"]}, 2, 40),
        ({"gpus": "auto", "here": 4, "due": ["train a", "evaluate b"]}, 2, 20),
        ({"gpus": 1, "here": 4, "due": ["train a", "evaluate b"]}, 1, 20),
        # Without --cores, as with --dag.
        ({"gpus": 1, "cores": None}, 1, ALL_CORES),
        # On a cluster the profile decides.
        ({"gpus": "auto", "local": False}, 1, ALL_CORES),
        ({"gpus": 4, "local": False}, 4, ALL_CORES),
    ],
)
def test_a_training_gets_its_part_of_the_machine(case, gpus, threads):
    result = devices(**case)
    assert result.gpus == gpus
    assert result.threads(gpus) == threads


def test_evaluations_take_one_gpu_each():
    result = devices("auto", due=["evaluate a", "evaluate b", "train c"], here=3, cores=42)
    assert result.threads(1) == 14
    assert devices("auto", due=[], cores=42).threads(1) == 42
    assert devices(1, cores=1).threads(1) == 1
    assert [devices(gpus).evaluation_gpus for gpus in (0, 1, 4, "auto")] == [0, 1, 1, 1]


def test_a_training_asks_for_gpus_of_this_machine_or_for_machines():
    resources = devices("auto", here=4).training_resources(1)
    assert {name: value(None) for name, value in resources.items()} == {"gpu": 2}
    assert devices(4).training_resources(2)["gres"] == "gpu:4"
    assert devices("auto").training_resources(2) == {
        "nodes": 2,
        "tasks": 2,
        "mpi": "srun",
        "tasks_per_gpu": 0,
        "gres": "gpu:1",
    }
    assert "gres" not in devices(0).training_resources(2)


def test_gpus_granted_by_snakemake_reach_the_launcher_or_are_refused():
    assert devices("auto").options(1) == "--max-gpus 1"
    assert devices("auto").options(0) == "--gpus 0"
    assert devices("auto").options(None) == ""
    assert devices(2).options(2) == ""
    with pytest.raises(RunError, match="gpu=1 is less than GPUS"):
        devices(2).options(1)
