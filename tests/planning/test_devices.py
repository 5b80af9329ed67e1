"""Shares of a machine, for graphs of jobs that are written down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.config.workflow import Workflow, WorkflowSettings
from vrtspike.errors import RunError
from vrtspike.planning.devices import EVERY_CORE, MachineShare


class Job(SimpleNamespace):
    __hash__ = object.__hash__


def share(
    gpus, here=2, given=None, due=("train a", "train b"), cores=40, local=True, done=(), more=None
):
    """Of a machine with ``here`` GPUs; each preset has a training and an evaluation after it.

    ``c`` learns from ``a``.
    """
    names = [f"{rule} {preset}" for rule in ("train", "evaluate") for preset in "abc"]
    jobs = {name: Job(rule=SimpleNamespace(name=name.split()[0])) for name in names}
    for name, job in jobs.items():
        job.wildcards = SimpleNamespace(preset=name.split()[1])
    data = Job(rule=SimpleNamespace(name="statistics"), wildcards=SimpleNamespace(dataset="d"))
    dependencies = {data: {}}
    for preset in "abc":
        dependencies[jobs[f"train {preset}"]] = {data: {"f"}}
        dependencies[jobs[f"evaluate {preset}"]] = {jobs[f"train {preset}"]: {"f"}}
    dependencies[jobs["train c"]][jobs["train a"]] = {"f"}
    dag = SimpleNamespace(
        jobs=[data, *(jobs[name] for name in due)],
        dependencies=dependencies,
        needrun_jobs=lambda: iter([jobs[name] for name in due if name not in done]),
    )
    registered: dict[str, int] = {}
    workflow = SimpleNamespace(
        is_main_process=True,
        executor_plugin="local",
        local_exec=local,
        cores=cores,
        dag=dag,
        global_resources={"gpu": SimpleNamespace(value=given)},
        register_resource=registered.__setitem__,
        registered=registered,
    )
    vars(workflow).update(more or {})
    plan = Workflow(WorkflowSettings(GPUS=gpus), {})
    return MachineShare(plan, workflow, lambda: here), workflow


@pytest.mark.parametrize(
    ("case", "gpus", "threads"),
    [
        # Two presets on two GPUs train at once, each with half of the machine.
        ({"gpus": "auto"}, 1, 20),
        ({"gpus": 1}, 1, 20),
        # One alone gets all of it; as many GPUs as it is told.
        ({"gpus": "auto", "due": ["train a"]}, 2, EVERY_CORE),
        ({"gpus": 1, "due": ["train a"]}, 1, 40),
        # One after the other where each takes all GPUs, or there is only one, or none.
        ({"gpus": 2}, 2, EVERY_CORE),
        ({"gpus": "auto", "given": 1}, 1, EVERY_CORE),
        ({"gpus": "auto", "here": 0}, 0, EVERY_CORE),
        ({"gpus": 0}, 0, EVERY_CORE),
        # More GPUs than trainings, more trainings than GPUs.
        ({"gpus": "auto", "here": 8}, 4, 20),
        ({"gpus": 1, "here": 8}, 1, 20),
        ({"gpus": "auto", "due": ["train a", "train b", "evaluate c"]}, 1, 20),
        ({"gpus": "auto", "given": 3, "due": ["train a", "train b"]}, 1, 20),
        # Who learns from it cannot train beside it, nor can its own evaluation.
        ({"gpus": "auto", "due": ["train a", "train c", "evaluate a"]}, 2, EVERY_CORE),
        ({"gpus": "auto", "here": 4, "due": ["train a", "evaluate b"]}, 4, EVERY_CORE),
        ({"gpus": 1, "here": 4, "due": ["train a", "evaluate b"]}, 1, 20),
        # At any distance.
        ({"gpus": 1, "due": ["train a", "train c", "evaluate c"]}, 1, 40),
        # What is finished takes nothing.
        ({"gpus": "auto", "done": ["train b"]}, 2, EVERY_CORE),
        # Before it is known what is due: as if everything were.
        ({"gpus": "auto", "done": ["train a", "train b"]}, 1, 20),
        # Few cores are not divided into none.
        ({"gpus": 1, "cores": 1}, 1, 1),
        # On a cluster the profile decides.
        ({"gpus": "auto", "local": False}, 1, EVERY_CORE),
        ({"gpus": 4, "local": False}, 4, EVERY_CORE),
        # A job of a cluster has its share, and a report computes nothing.
        ({"gpus": "auto", "more": {"is_main_process": False}}, 1, EVERY_CORE),
        ({"gpus": "auto", "more": {"executor_plugin": None}}, 1, EVERY_CORE),
    ],
)
def test_what_a_training_gets(case, gpus, threads):
    found, _ = share(**case)
    assert found.gpus("a") == gpus
    assert found.threads("train", "a") == threads


def test_who_learns_from_another_does_not_share_with_it():
    found, _ = share("auto", due=["train a", "train c"])
    assert found.gpus("c") == 2
    assert found.threads("train", "c") == EVERY_CORE


def test_evaluations_share_the_machine_too():
    found, _ = share("auto", due=["evaluate a", "evaluate b", "train c"], here=3)
    assert found.threads("evaluate", "b") == 40 // 3
    alone, _ = share("auto", due=["evaluate a"])
    assert alone.threads("evaluate", "a") == 40


def test_no_more_share_the_cores_than_can_compute_at_once():
    found, _ = share(1, due=["train b", "evaluate a", "evaluate c"])
    assert found.threads("train", "b") == 20


def test_snakemake_counts_the_gpus_that_are_here_unless_it_is_told():
    found, workflow = share("auto")
    assert found.limit() == 2
    assert workflow.registered == {"gpu": 2}
    told, workflow = share("auto", given=1)
    assert told.limit() == 1
    assert workflow.registered == {}
    none, workflow = share("auto", here=0)
    assert none.limit() == 0
    assert workflow.registered == {}


def test_a_limit_below_what_a_training_takes_is_refused():
    found, _ = share(2, given=1)
    with pytest.raises(RunError, match=r"--resources gpu=1 leaves less than the 2 GPUs"):
        found.require_limit()
    for fine in (share(1, given=1), share("auto", given=1), share(2, given=1, local=False)):
        fine[0].require_limit()
