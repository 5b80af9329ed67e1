"""Devices of a machine, for plans that are written down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.errors import RunError
from vrtspike.workflow.local_devices import EVERY_CORE, LocalDevices
from vrtspike.workflow.snakemake_internals import Job


def devices(gpus, here=2, due=("train a", "train b"), local=True) -> LocalDevices:
    """Of a machine with ``here`` GPUs; each preset has a training and an evaluation after it.

    ``c`` learns from ``a``.
    """

    def job(name: str) -> Job:
        rule, preset = name.split()
        inputs = {"data"} | ({f"train {preset}"} if rule == "evaluate" else set())
        inputs |= {"train a"} if name == "train c" else set()
        return Job(rule, {"preset": preset}, frozenset(inputs), (name, f"{name} log"))

    jobs = [Job("statistics", {"dataset": "d"}, frozenset(), ("data",)), *map(job, due)]
    snakemake = SimpleNamespace(runs_here=local, due_jobs=lambda: jobs)
    return LocalDevices(gpus, snakemake, lambda: here)


@pytest.mark.parametrize(
    ("case", "gpus", "threads"),
    [
        # Two presets on two GPUs train at once, each with half of the machine.
        ({"gpus": "auto"}, 1, 20),
        ({"gpus": 1}, 1, 20),
        # One alone gets all of it; as many GPUs as it is told.
        ({"gpus": "auto", "due": ["train a"]}, 2, EVERY_CORE),
        ({"gpus": 1, "due": ["train a"]}, 1, 40),
        # One after the other where each takes all GPUs, or there is only one.
        ({"gpus": 2}, 2, EVERY_CORE),
        ({"gpus": "auto", "here": 1}, 1, EVERY_CORE),
        # On the CPU side by side.
        ({"gpus": "auto", "here": 0}, 0, 20),
        ({"gpus": 0}, 0, 20),
        ({"gpus": 0, "due": ["train a"]}, 0, 40),
        # More GPUs than trainings, more trainings than GPUs.
        ({"gpus": "auto", "here": 8}, 4, 20),
        ({"gpus": 1, "here": 8}, 1, 20),
        ({"gpus": "auto", "due": ["train a", "train b", "evaluate c"]}, 1, 20),
        # Who learns from it cannot train beside it, nor can its own evaluation.
        ({"gpus": "auto", "due": ["train a", "train c", "evaluate a"]}, 2, EVERY_CORE),
        ({"gpus": "auto", "here": 4, "due": ["train a", "evaluate b"]}, 4, EVERY_CORE),
        ({"gpus": 1, "here": 4, "due": ["train a", "evaluate b"]}, 1, 20),
        # At any distance.
        ({"gpus": 1, "due": ["train a", "train c", "evaluate c"]}, 1, 40),
        # On a cluster the profile decides.
        ({"gpus": "auto", "local": False}, 1, EVERY_CORE),
        ({"gpus": 4, "local": False}, 4, EVERY_CORE),
    ],
)
def test_a_training_gets_its_part_of_the_machine(case, gpus, threads):
    found = devices(**case)
    assert found.gpus("a") == gpus
    assert found.threads("train", "a", 40) == threads


def test_who_learns_from_another_has_the_machine_after_it():
    assert devices("auto", due=["train a", "train c"]).gpus("c") == 2


def test_evaluations_take_one_gpu_each():
    found = devices("auto", due=["evaluate a", "evaluate b", "train c"], here=3)
    assert [found.threads("evaluate", preset, 42) for preset in "ab"] == [14, 14]
    # A job that is not due is not asked about what runs beside it.
    assert found.threads("evaluate", "x", 42) == 42


def test_few_cores_are_not_divided_into_none():
    assert devices(1).threads("train", "a", 1) == 1


def test_what_snakemake_grants_is_told_the_launcher_or_refused():
    assert devices("auto").options(1) == "--most-gpus 1"
    assert devices("auto").options(0) == "--gpus 0"
    assert devices(2).options(2) == ""
    with pytest.raises(RunError, match="gpu=1 leaves less than the 2 GPUs"):
        devices(2).options(1)
