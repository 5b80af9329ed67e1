"""Trainings on a failing cluster: the lines of docs/clusters.md."""

from __future__ import annotations

import os
import re
import shutil
import signal
from contextlib import ExitStack

import pytest

from tests.endurance.submitted import SECOND_STEP, TIMEOUT_S, OnCluster
from tests.faults.processes import Command

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(TIMEOUT_S))

AWAY = "Slurm's controller does not answer"
BACK = "Slurm's controller answers again"


ON_NODES = "import os\nif 'SLURM_JOB_ID' in os.environ:\n    import not_on_nodes"


def failures(output: str) -> list[str]:
    return re.findall(r"^error: .*$", output, re.MULTILINE)


def steps_computed(on: OnCluster, preset: str) -> list[int]:
    """The step at which each start of a preset's run began."""
    return [start["step"] for start in on.published(preset)["starts"]]


def test_a_controller_that_is_away_at_a_status_check_is_asked_again(prepared: OnCluster):
    """The job ends meanwhile; Snakemake's own plugin would wait for ever."""
    prepared.preset("away", 8)
    with prepared.start("train_away", stops_at=SECOND_STEP) as run:
        with run.held("rank"):
            prepared.cluster.stop_controller()
            run.wait_for(lambda: AWAY in run.text)
        try:
            run.wait_for(lambda: prepared.record("away")["status"] == "finished")
        finally:
            prepared.cluster.start_controller()
        output = run.succeed()
    assert (output.count(AWAY), output.count(BACK)) == (1, 1)
    assert "Unable to contact slurm controller" in output
    assert failures(output) == []
    assert steps_computed(prepared, "away") == [0]


def test_a_submission_that_meets_no_controller_is_made_later(prepared: OnCluster):
    """And takes none of the attempts: there is just one here."""
    prepared.preset("late", 2)
    prepared.cluster.stop_controller()
    try:
        with prepared.start("train_late", "--retries", "0") as run:
            run.wait_for(lambda: AWAY in run.text)
            prepared.cluster.start_controller()
            output = run.succeed()
    finally:
        if "slurmctld" not in prepared.cluster.running:
            prepared.cluster.start_controller()
    assert (output.count(AWAY), output.count(BACK)) == (1, 1)
    assert failures(output) == []
    assert steps_computed(prepared, "late") == [0]


def forget(on: OnCluster, run: Command) -> None:
    """A controller that has lost its state knows no job; nodes end those that it does not know."""
    on.cluster.stop_controller()
    on.cluster.start_controller(empty=True)
    run.wait_for(lambda: bool(failures(run.text)))


def cancel(on: OnCluster, run: Command) -> None:
    (job,) = on.cluster.jobs("running")
    on.cluster.call("scancel", job)


def kill(on: OnCluster, run: Command) -> None:
    (launcher,) = run.find("launcher")
    launcher.kill()


def lose_node(on: OnCluster, run: Command) -> None:
    (node,) = on.cluster.call("squeue", "-h", "-o", "%N").split()
    on.cluster.kill_node(node)
    assert run.find("launcher") == []
    on.cluster.start_node(node)


KILLED = "its program was ended by SIGKILL, as when memory is full"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (forget, "^error: .*Slurm no longer knows it, and its results are not there"),
        pytest.param(
            *(cancel, r"^error: .*Slurm job \d+: it was cancelled, by scancel or by the site"),
            marks=pytest.mark.core,
        ),
        (kill, f"^error: .*{KILLED}"),
        (lose_node, r"Slurm job \d+ \(train\) was queued again: .* its node failed"),
    ],
)
def test_a_job_that_ends_early_is_continued_and_says_why(prepared: OnCluster, fault, message):
    preset = fault.__name__
    prepared.preset(preset, 12)
    with prepared.start(f"train_{preset}", stops_at=SECOND_STEP) as run:
        with run.held("rank"):
            saved = prepared.saved(preset)
            fault(prepared, run)
        output = run.succeed()
    assert re.search(message, output, re.MULTILINE), output
    assert len(failures(output)) == message.startswith("^error")
    first, second = steps_computed(prepared, preset)
    assert first == 0
    assert second >= saved >= 1


def test_a_training_longer_than_its_wall_time_is_continued_and_uses_up_no_retry(
    prepared: OnCluster,
):
    """A job of a minute is stopped after three quarters of it, and has saved every step."""
    prepared.preset("long", 100_000)
    with prepared.start("train_long", "--retries", "0", runtime="1", slurm_extra="''") as run:
        run.wait_for(lambda: len(prepared.record("long").get("starts", [])) == 2)
        (job,) = prepared.cluster.jobs()[-1:]
        message = f"Slurm job {job} (train) was queued again: its wall time ended"
        run.wait_for(lambda: message in run.text)  # Snakemake asks Slurm now and then
        output = run.text
    assert failures(output) == []
    first, second, *_ = prepared.record("long")["starts"]  # Snakemake may look later
    assert first["step"] == 0 < second["step"]


@pytest.mark.parametrize("partition", ["test", "none_such"])
def test_a_cause_that_is_not_going_away_is_reported_once(prepared: OnCluster, partition):
    """A program that blames what the user gave (status 2), and a partition that there is not."""
    prepared.preset("faulty", 2)
    with (
        prepared.project.replaced(
            "scripts/launch_training.py", "import argparse", "raise SystemExit(2)\nimport argparse"
        ),
        prepared.start("train_faulty", slurm_partition=partition) as run,
    ):
        assert run.wait() != 0
        output = run.text
    (failed,) = failures(output)
    assert "is retried" not in output
    causes = {"test": "its program failed", "none_such": "Slurm refused it: sbatch: error: invalid"}
    assert causes[partition] in failed


IN_THE_LOCK = """
import os
import time
if "SLURM_JOB_ID" in os.environ:
    from snakemake.scheduling.job_scheduler import JobScheduler
    finish_jobs, exit_gracefully = JobScheduler._finish_jobs, JobScheduler.exit_gracefully

    def finish_jobs_after_a_signal(scheduler):
        Path("waits.tmp").write_text(str(os.getpid()))
        Path("waits.tmp").rename("waits")
        while not Path("signalled").exists():
            time.sleep(0.05)
        finish_jobs(scheduler)

    def note_signal(scheduler, *signal):
        Path("signalled").touch()
        exit_gracefully(scheduler, *signal)

    JobScheduler._finish_jobs = finish_jobs_after_a_signal
    JobScheduler.exit_gracefully = note_signal
"""
"""Has a job's Snakemake wait for SIGTERM in its main thread, which holds the scheduler's lock."""


def test_a_job_that_is_asked_to_end_while_its_scheduler_is_locked_ends_and_is_reported(
    prepared: OnCluster,
):
    prepared.preset("locked", 2)
    waits = prepared.project.folder / "waits"
    place = "\nprepare_process(SNAKEMAKE)"
    with (
        prepared.project.replaced("rules/common.smk", place, f"\n{IN_THE_LOCK}{place}"),
        prepared.start("train_locked", "--retries", "0") as run,
    ):
        run.wait_for(waits.exists)
        (job,) = prepared.cluster.jobs("running")
        os.kill(int(waits.read_text()), signal.SIGTERM)
        assert run.wait() != 0
        output = run.text
        assert run.orphans() == []
    (failed,) = failures(output)
    assert f"Slurm job {job}: its program failed" in failed
    assert prepared.cluster.jobs("pending", "running", "suspended") == []
    assert "JobState=FAILED" in prepared.cluster.job(job)


SLOW = """#!/bin/sh
sleep 6
SLURM_CONF={folder}/slurm.conf exec {scancel} "$@"
"""


def test_a_run_that_is_stopped_waits_until_its_jobs_are_cancelled(prepared: OnCluster):
    """However long that takes."""
    prepared.preset("stopped", 100_000)
    program = prepared.cluster.folder / "bin/scancel"
    fast = program.read_text()
    with prepared.start("train_stopped") as run:
        run.wait_for(lambda: prepared.saved("stopped") >= 1)
        program.write_text(SLOW.format(folder=program.parents[1], scancel=shutil.which("scancel")))
        try:
            run.process.send_signal(signal.SIGINT)
            assert run.wait() != 0
        finally:
            program.write_text(fast)
        assert prepared.cluster.jobs("pending", "running", "suspended") == []
        assert "jobs may go on" not in run.text


def test_a_second_snakemake_waits_for_the_job_of_one_that_was_killed(prepared: OnCluster):
    prepared.preset("orphan", 10)
    log = prepared.project.folder / "results/logs/train/orphan.log"
    with (
        ExitStack() as stack,
        prepared.start("train_orphan", "--retries", "0", stops_at=SECOND_STEP) as run,
    ):
        with run.held("rank"):
            run.process.kill()
            (living,) = prepared.cluster.jobs("running")
            waits = re.compile(rf"waiting for Slurm job {living} \(process \d+ of \S+ on \S+\)")
            second = stack.enter_context(prepared.start("train_orphan", "--retries", "0"))
            second.wait_for(lambda: log.is_file() and bool(waits.search(log.read_text())))
        output = second.succeed()
    assert failures(output) == []
    assert steps_computed(prepared, "orphan") == [0]
    assert prepared.published("orphan")["status"] == "finished"


def test_a_program_that_cannot_begin_is_reported_with_its_own_words(prepared: OnCluster):
    """Its message is in the log of the job, or only in the output that Slurm keeps."""
    prepared.preset("broken", 2)
    for file, old, new, module in (
        ("scripts/launch_training.py", "import argparse", "import not_installed", "not_installed"),
        ("rules/common.smk", "\nfrom vrtspike", f"\n{ON_NODES}\nfrom vrtspike", "not_on_nodes"),
    ):
        with (
            prepared.project.replaced(file, old, new),
            prepared.start("train_broken", "--retries", "0") as run,
        ):
            assert run.wait() != 0
            output = run.text
        assert f"No module named '{module}'" in output
        (failed,) = failures(output)
        assert "its program failed" in failed


def test_a_job_that_needs_more_memory_gets_more(prepared: OnCluster):
    prepared.preset("greedy", 2)
    with prepared.start("train_greedy", mem_mb="1000 * attempt") as run:
        output = run.succeed()
    jobs = prepared.cluster.jobs()[-2:]
    queue = prepared.cluster.call("squeue", "-h", "-t", "all", "-S", "i", "-o", "%i %m")
    assert [line.split() for line in queue.splitlines()[-2:]] == [
        [jobs[0], "1000M"],
        [jobs[1], "2000M"],
    ]
    (failed,) = failures(output)
    assert f"Slurm job {jobs[0]}: it needed more memory than it asked for" in failed
    assert "train greedy is retried" in output
