"""What becomes of jobs as Slurm's programs answer; here scripts give the answers."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("snakemake_executor_plugin_slurm")

from snakemake.common.argparse import ArgumentParser
from snakemake.iocontainers import ResourceList
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from snakemake_executor_plugin_slurm_vrtspike import Executor, absent
from vrtspike.queueing.outage import AGAIN_S


class Job:
    """As much of Snakemake's job as an executor asks for."""

    name, wildcards, jobid = "train", ["tiny"], 1
    attempt, restart_times = 1, 2

    def __init__(self, output: Path, memory_mb: int = 500) -> None:
        self.output = [output]
        self.log = [output.with_suffix(".log")]
        self.resources = ResourceList(fromdict={"threads": 3, "mem_mb": memory_mb, "runtime": 9})

    def is_group(self) -> bool:
        return False


class Slurm:
    """An executor, and the folder of the programs that it asks."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.said = folder, []
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.submissions: list[int] = []
        self.answers: list[str | None] = []

        def begin(executor, workflow, logger) -> None:
            vars(executor).update(workflow=workflow, logger=logger, run_uuid="run")
            vars(executor).update(_main_event_loop=None, _submitted_job_clusters=set())
            vars(executor).update(_next_seconds_between_status_checks=None, slurm_logdir=folder)
            vars(executor).update(lock=threading.Lock(), wait=True, active_jobs=[])

        def submit(executor, job) -> None:
            """As the plugin: sbatch's answer becomes a job, or a message."""
            assert job.resources.mem_mb == job.resources[1]  # by name and as all are listed
            self.submissions.append(job.resources.mem_mb)
            refused = self.answers.pop(0) if self.answers else None
            info = SubmittedJobInfo(job, external_jobid="7", aux={})
            if refused is None:
                executor.report_job_submission(info)
            else:
                text = f"SLURM sbatch failed. The error message was '{refused}'.\n    sbatch call"
                executor._report_job_error_threadsafe(SubmittedJobInfo(job), text)

        monkeypatch.setattr(SlurmExecutor, "__init__", begin)
        monkeypatch.setattr(SlurmExecutor, "run_job", submit)
        monkeypatch.setattr(SlurmExecutor, "report_job_submission", self._submitted)
        settings = SimpleNamespace(
            init_seconds_before_status_checks=5,
            keep_successful_logs=False,
            pass_command_as_script=False,
            memory_limit_mb=1500,
            status_command="squeue",
        )
        execution = SimpleNamespace(latency_wait=0)
        workflow = SimpleNamespace(executor_settings=settings, execution_settings=execution)
        logger = logging.getLogger("test_executor")
        monkeypatch.setattr(logger, "warning", self.said.append)
        self.executor = Executor(workflow, logger)
        self.submitted: list[str] = []
        self.succeeded: list[str] = []
        self.failed: list[str] = []
        monkeypatch.setattr(
            self.executor, "report_job_success", lambda job: self.succeeded.append(_number(job))
        )
        self.told: list[dict] = []

        def failed(job, msg, **more) -> None:
            self.failed.append(msg)
            self.told.append(more)

        monkeypatch.setattr(self.executor, "report_job_error", failed)

    def _submitted(self, info: SubmittedJobInfo, register_job: bool = True) -> None:
        self.submitted.append(_number(info))

    def program(self, name: str, *, prints: str = "", fails: str | None = None) -> None:
        """Let a program of Slurm's give an answer."""
        (self.folder / f"{name}.txt").write_text(prints)
        end = f"cat {self.folder}/{name}.txt"
        if fails is not None:
            end = f"echo '{fails}' >&2; exit 1"
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/{name}.calls\n{end}\n')
        path.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def check(self, *jobs: SubmittedJobInfo) -> list[str]:
        """Ask once; returns the numbers of the jobs that go on."""

        async def once() -> list[str]:
            return [_number(job) async for job in self.executor.check_active_jobs(list(jobs))]

        return asyncio.run(once())


def _number(job: SubmittedJobInfo) -> str:
    return str(job.external_jobid)


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Slurm:
    made = Slurm(tmp_path, monkeypatch)
    made.program("sacct", fails="Slurm accounting storage is disabled")
    return made


def submitted(folder: Path, number: str = "7") -> SubmittedJobInfo:
    log = folder / f"{number}.log"
    log.write_text("working\n")
    return SubmittedJobInfo(Job(folder / "weights"), number, {"slurm_logfile": log})


def test_no_answer_loses_no_job(slurm, tmp_path):
    slurm.program("squeue", fails="slurm_load_jobs error: Unable to contact slurm controller")
    jobs = [submitted(tmp_path, number) for number in ("7", "8")]
    for _ in range(7):
        assert slurm.check(*jobs) == ["7", "8"]
    assert slurm.executor.next_seconds_between_status_checks == AGAIN_S
    slurm.program("squeue", prints="7|RUNNING|n0|9:00|\n8|PENDING||9:00|\n")
    assert slurm.check(*jobs) == ["7", "8"]
    assert slurm.executor.next_seconds_between_status_checks == 5
    begun, back = slurm.said
    assert "does not answer (slurm_load_jobs error: Unable to contact slurm controller)" in begun
    assert "answers again" in back
    assert (slurm.succeeded, slurm.failed) == ([], [])


def test_nothing_is_asked_where_nothing_runs(slurm):
    slurm.program("squeue")
    assert slurm.check() == []
    assert slurm.calls("squeue") == []
    assert slurm.executor.next_seconds_between_status_checks == 1
    # With a command of its own for that, the plugin would give advice on it.
    assert slurm.executor.workflow.executor_settings.status_command is None


def test_a_job_that_has_ended_well_leaves_no_log(slurm, tmp_path):
    slurm.program("squeue", prints="7|COMPLETED|n0|9:00|\n8|COMPLETING|n0|9:00|\n")
    jobs = [submitted(tmp_path, number) for number in ("7", "8")]
    assert slurm.check(*jobs) == ["8"]
    assert slurm.succeeded == ["7"]
    assert not (tmp_path / "7.log").exists()
    assert (tmp_path / "8.log").exists()
    assert slurm.calls("sacct") == []


def test_the_log_of_a_good_job_is_kept_on_request(slurm, tmp_path):
    slurm.executor.workflow.executor_settings.keep_successful_logs = True
    slurm.program("squeue", prints="7|COMPLETED|n0|9:00|\n")
    assert slurm.check(submitted(tmp_path)) == []
    assert (tmp_path / "7.log").exists()


@pytest.mark.parametrize("state", ["FAILED", "OUT_OF_MEMORY"])
def test_memory_is_doubled_where_it_was_too_small_up_to_the_limit(slurm, tmp_path, state):
    said = []
    job = submitted(tmp_path)
    for attempt in (1, 2, 3):
        job.job.attempt = attempt
        slurm.executor.run_job(job.job)
        (tmp_path / "7.log").write_text("slurmstepd: error: Detected 1 oom-kill event(s)\n")
        slurm.program("squeue", prints=f"7|{state}|n0|9:00|\n")
        assert slurm.check(job) == []
        said.append(slurm.failed.pop())
    assert slurm.submissions == [500, 1000, 1500]
    # The scheduler frees what it took.
    assert job.job.resources.mem_mb == job.job.resources[1] == 500
    assert said[0].startswith("Slurm job 7: it needed more memory than the 500 MB it asked for; ")
    assert "submitted again and asks for 1000 MB" in said[0]
    assert "asks for 1500 MB" in said[1]
    assert "than the 1500 MB it asked for; mem_mb of its rule" in said[2]


def test_the_memory_of_one_preset_is_not_that_of_another(slurm, tmp_path):
    job = submitted(tmp_path)
    slurm.executor.run_job(job.job)
    slurm.program("squeue", prints="7|OUT_OF_MEMORY|n0|9:00|\n")
    slurm.check(job)
    other = Job(tmp_path / "weights")
    other.wildcards = ["other"]
    for each in (other, job.job):
        slurm.executor.run_job(each)
    assert slurm.submissions == [500, 500, 1000]


def test_at_the_limit_the_limit_is_named(slurm, tmp_path):
    job = submitted(tmp_path)
    job.job = Job(tmp_path / "weights", memory_mb=1500)
    slurm.program("squeue", prints="7|OUT_OF_MEMORY|n0|9:00|\n")
    slurm.check(job)
    assert "1500 MB it asked for, which is the limit that memory-limit-mb sets" in slurm.failed[0]


def test_a_job_that_ran_into_its_wall_time_asks_for_the_same_memory(slurm, tmp_path):
    job = submitted(tmp_path)
    slurm.program("squeue", prints="7|TIMEOUT|n0|9:00|\n")
    slurm.executor.run_job(job.job)
    slurm.check(job)
    slurm.executor.run_job(job.job)
    assert slurm.submissions == [500, 500]
    assert "wall time of 9:00" in slurm.failed[0]


def test_a_failed_job_is_told_with_the_log_that_slurm_keeps(slurm, tmp_path):
    job = submitted(tmp_path)
    slurm.executor.run_job(job.job)
    slurm.program("squeue", prints="7|FAILED|n0|9:00|\n")
    slurm.check(job)
    (told,) = slurm.told
    assert told["aux_logs"] == [str(tmp_path / "7.log")]
    assert told["why"] == "Slurm job 7: its program failed"


def test_a_forgotten_job_is_known_by_new_results(slurm, tmp_path, monkeypatch):
    job = submitted(tmp_path)
    weights = tmp_path / "weights"
    weights.write_text("of the last run")
    slurm.executor.run_job(job.job)
    slurm.program("squeue", prints="9|RUNNING|n0|9:00|\n")
    assert slurm.check(job) == ["7"]
    weights.unlink()
    assert slurm.check(job) == ["7"]
    weights.write_text("of a second run")  # as many bytes
    assert slurm.check(job) == []
    assert slurm.succeeded == ["7"]


def test_a_job_that_is_listed_again_was_not_forgotten(slurm, tmp_path):
    job = submitted(tmp_path)
    slurm.executor.run_job(job.job)
    slurm.program("squeue", prints="")
    slurm.check(job)
    slurm.executor._unlisted["7"] -= 2 * AGAIN_S + 5
    slurm.program("squeue", prints="7|RUNNING|n0|9:00|\n")
    assert slurm.check(job) == ["7"]
    slurm.program("squeue", prints="")
    assert slurm.check(job) == ["7"]
    assert slurm.failed == []


def test_a_forgotten_job_without_results_has_failed_after_a_while(slurm, tmp_path, monkeypatch):
    job = submitted(tmp_path)
    slurm.executor.run_job(job.job)
    slurm.program("squeue", prints="")
    assert slurm.check(job) == ["7"]
    slurm.executor._unlisted["7"] -= 2 * AGAIN_S - 5
    assert slurm.check(job) == ["7"]
    slurm.executor._unlisted["7"] -= 5
    assert slurm.check(job) == []
    assert slurm.failed == [
        "Slurm job 7: Slurm no longer knows it, and its results are not there. "
    ]


def test_results_of_a_slow_file_system_are_waited_for_all_of_them(slurm, tmp_path):
    job = submitted(tmp_path)
    job.job.output = [tmp_path / "weights", tmp_path / "logs"]
    slurm.executor.run_job(job.job)
    slurm.executor.workflow.execution_settings.latency_wait = 100
    slurm.program("squeue", prints="")
    (tmp_path / "weights").touch()
    assert slurm.check(job) == ["7"]
    slurm.executor._unlisted["7"] -= 90
    assert slurm.check(job) == ["7"]
    (tmp_path / "logs").touch()
    assert slurm.check(job) == []
    assert slurm.succeeded == ["7"]


def test_jobs_are_asked_for_soon_after_one_was_submitted_or_has_ended(slurm, tmp_path):
    jobs = [submitted(tmp_path, number) for number in ("7", "8")]
    slurm.program("squeue", prints="7|RUNNING|n0|9:00|\n8|RUNNING|n0|9:00|\n")

    def interval(*asked: SubmittedJobInfo) -> float:
        slurm.check(*asked)
        return slurm.executor.next_seconds_between_status_checks

    slurm.executor._changed -= 10_000
    assert interval(*jobs) == 60
    slurm.executor.run_job(jobs[1].job)
    assert interval(*jobs) == 5
    slurm.executor._changed -= 10_000
    slurm.program("squeue", prints="7|COMPLETED|n0|9:00|\n8|RUNNING|n0|9:00|\n")
    assert interval(*jobs) == 5


def test_a_slow_controller_is_asked_more_rarely(slurm, tmp_path):
    slurm.program("squeue", prints="7|RUNNING|n0|9:00|\n")
    with (tmp_path / "squeue").open("a") as program:
        program.write("sleep 0.6\n")
    slurm.check(submitted(tmp_path))
    assert slurm.executor.next_seconds_between_status_checks > 9 * 0.6 > 5


def test_the_end_of_a_run_waits_for_no_next_look(slurm, tmp_path, monkeypatch):
    """And while jobs are cancelled, for a minute at worst, they are not asked for without pause."""
    monkeypatch.setattr(SlurmExecutor, "shutdown", lambda executor: None)
    common = SimpleNamespace(init_seconds_before_status_checks=0)
    slurm.executor.workflow.executor_plugin = SimpleNamespace(common_settings=common)
    slurm.program("squeue", prints="7|RUNNING|n0|9:00|\n")
    slurm.program("scancel")
    slurm.executor.active_jobs = [submitted(tmp_path)]
    slurm.executor._changed -= 10_000  # the next look is in a minute
    asking = threading.Thread(target=slurm.executor._wait_thread, daemon=True)
    asking.start()
    while not slurm.calls("squeue"):
        time.sleep(0.01)
    slurm.executor.cancel_jobs([submitted(tmp_path)])
    asking.join(0.5)
    assert asking.is_alive()
    slurm.executor.shutdown()
    asking.join(30)
    assert not asking.is_alive()
    assert len(slurm.calls("squeue")) == 1


@pytest.mark.parametrize(
    ("record", "succeeded", "failed"),
    [("COMPLETED\n", ["7"], 0), ("CANCELLED by 0\n", [], 1), ("RUNNING\n", [], 0)],
)
def test_a_forgotten_job_is_looked_up_in_the_accounting(slurm, tmp_path, record, succeeded, failed):
    slurm.program("squeue", prints="")
    slurm.program("sacct", prints=record)
    slurm.check(submitted(tmp_path))
    assert (slurm.succeeded, len(slurm.failed)) == (succeeded, failed)
    (call,) = slurm.calls("sacct")
    assert call.endswith("--jobs 7")


def test_an_accounting_that_does_not_answer_is_asked_once_a_look(slurm, tmp_path):
    """It may take half a minute each time, while a hundred jobs wait to be looked at."""
    slurm.program("squeue", prints="")
    jobs = [submitted(tmp_path, number) for number in ("7", "8", "9")]
    for looks in (1, 2):
        assert slurm.check(*jobs) == ["7", "8", "9"]
        assert len(slurm.calls("sacct")) == looks
    slurm.program("sacct", prints="RUNNING\n")
    slurm.check(*jobs)
    assert len(slurm.calls("sacct")) == 2 + 3


AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller"


def test_a_submission_is_repeated_until_the_controller_is_back(slurm, tmp_path, monkeypatch):
    """And not before it tells which jobs it has: the lost submission may be one of them."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            slurm.program("squeue")
        return False

    monkeypatch.setattr(slurm.executor._stopping, "wait", wait)
    slurm.program("squeue", fails="no controller")
    slurm.answers = [AWAY, AWAY]
    slurm.executor.run_job(Job(tmp_path / "weights"))
    assert waits == [AGAIN_S] * 3
    assert len(slurm.submissions) == 3
    assert slurm.submitted == ["7"]
    assert slurm.failed == []
    assert len(slurm.said) == 2


@pytest.mark.parametrize("end", ["cancel_jobs", "shutdown"])
def test_who_waits_to_submit_ends_with_the_run(slurm, tmp_path, monkeypatch, end):
    monkeypatch.setattr(SlurmExecutor, "shutdown", lambda executor: None)
    slurm.program("squeue", fails="no controller")
    slurm.answers = [AWAY, AWAY]
    getattr(slurm.executor, end)(*([[]] if end == "cancel_jobs" else []))
    slurm.executor.run_job(Job(tmp_path / "weights"))
    assert len(slurm.submissions) == 1
    assert slurm.submitted == []


def test_a_job_that_was_accepted_though_no_answer_came_is_not_submitted_again(
    slurm, tmp_path, monkeypatch
):
    monkeypatch.setattr(slurm.executor._stopping, "wait", lambda seconds: False)
    slurm.program("squeue", prints="7|FAILED|n0|9:00|rule_train_wildcards_tiny\n")
    slurm.executor.run_job(Job(tmp_path / "weights"))
    del slurm.submissions[:], slurm.submitted[:]
    slurm.answers = [AWAY, AWAY.replace("Unable to contact slurm controller", "Socket timed out")]

    def lost(seconds: float) -> bool:
        if len(slurm.submissions) == 2:
            slurm.program("squeue", prints="6|PENDING||9:00|rule_train_wildcards_tiny\n")
        return False

    monkeypatch.setattr(slurm.executor._stopping, "wait", lost)
    slurm.executor.run_job(Job(tmp_path / "weights"))
    assert slurm.submitted == ["6"]
    assert len(slurm.submissions) == 2


def test_what_slurm_refuses_is_a_failed_job_in_its_own_words(slurm, tmp_path):
    slurm.answers = ["sbatch: error: Invalid account\nsbatch: error: Batch job submission failed"]
    slurm.executor.run_job(Job(tmp_path / "weights"))
    assert slurm.failed == [
        "Slurm refused it: sbatch: error: Invalid account; "
        "sbatch: error: Batch job submission failed. "
    ]
    assert len(slurm.submissions) == 1


def test_what_slurm_refuses_is_told_in_the_thread_of_the_scheduler(slurm, tmp_path):
    waiting = []
    slurm.executor._main_event_loop = SimpleNamespace(call_soon_threadsafe=waiting.append)
    slurm.answers = ["sbatch: error: Invalid account"]
    slurm.executor.run_job(Job(tmp_path / "weights"))
    assert slurm.failed == []
    waiting.pop()()
    assert slurm.failed == ["Slurm refused it: sbatch: error: Invalid account. "]


def test_a_submission_that_breaks_is_a_failed_job(slurm, tmp_path, monkeypatch):
    def broken(executor, job) -> None:
        raise ValueError("no such folder")

    monkeypatch.setattr(SlurmExecutor, "run_job", broken)
    slurm.executor.run_job(Job(tmp_path / "weights"))
    (said,) = slurm.failed
    assert "the submission failed: ValueError('no such folder')" in said


def test_jobs_on_other_clusters_are_cancelled_there(slurm, tmp_path):
    slurm.program("scancel")
    slurm.executor._submitted_job_clusters = {"far"}
    slurm.executor.cancel_jobs([submitted(tmp_path)])
    assert slurm.calls("scancel") == ["--clusters=all 7"]


def test_jobs_that_cannot_be_cancelled_are_named(slurm, tmp_path):
    slurm.program("scancel", fails="Unable to contact slurm controller")
    slurm.executor.cancel_jobs([submitted(tmp_path, "7"), submitted(tmp_path, "8")])
    assert slurm.calls("scancel") == ["7 8"]
    (said,) = slurm.said
    assert "Unable to contact slurm controller" in said
    assert said.endswith("to end them: scancel 7 8")


def test_an_account_is_handed_on_and_none_is_asked_for(slurm, tmp_path):
    job = Job(tmp_path / "weights")
    slurm.program("sacctmgr", fails="slow")
    assert next(slurm.executor.get_account_arg(job)) == ""
    job.resources = ResourceList(fromdict={"slurm_account": "my lab"})
    assert next(slurm.executor.get_account_arg(job)) == " -A my"
    job.resources = ResourceList(fromdict={"slurm_account": "a;b"})
    assert next(slurm.executor.get_account_arg(job)) == " -A 'a;b'"
    assert slurm.calls("sacctmgr") == []


def test_a_job_starts_one_snakemake_as_a_step(slurm, tmp_path, monkeypatch):
    """On several nodes the launcher starts the steps; an array needs the plugin's own way."""
    monkeypatch.setattr(SlurmExecutor, "format_job_exec", _call)
    slurm.executor.array_jobs = set()
    monkeypatch.setattr(slurm.executor, "get_python_executable", lambda: "python")
    job = Job(tmp_path / "weights")
    job.threads = 3
    begin = "python -m vrtspike.queueing.step "
    job.resources = ResourceList(fromdict={"gpu": 2})
    assert slurm.executor.format_job_exec(job) == (
        f"{begin}srun -n1 --cpu-bind=q --cpus-per-task=3 --gpus=2 --nodes=1 snakemake"
    )
    job.resources = ResourceList(fromdict={"mpi": "srun", "nodes": 2, "tasks": 2})
    assert slurm.executor.format_job_exec(job) == f"{begin}snakemake"
    slurm.executor.array_jobs = {"ingest"}
    assert slurm.executor.format_job_exec(job).startswith("snakemake --executor slurm-jobstep")


def _call(executor, job) -> str:
    return f"snakemake {executor.additional_general_args()}".strip()


def test_snakemake_takes_the_package_with_and_without_the_plugin(monkeypatch):
    name = "snakemake_executor_plugin_slurm_vrtspike"
    for installed in (True, False):
        registry, parser = ExecutorPluginRegistry(), ArgumentParser()
        monkeypatch.setattr(registry, "plugins", {})
        if not installed:
            monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
        module = importlib.reload(importlib.import_module(name))
        registry.register_plugin(name, module)
        registry.register_cli_args(parser)
        given = ["--slurm-vrtspike-memory-limit-mb", "9"]
        given += ["--slurm-vrtspike-init-seconds-before-status-checks", "3"]
        found = parser.parse_args(given)
        assert found.slurm_vrtspike_memory_limit_mb == 9
        assert (module.Executor is absent.Executor) == (not installed)
    monkeypatch.undo()
    importlib.reload(module)


def test_without_the_plugin_a_run_ends_with_what_to_install():
    with pytest.raises(WorkflowError, match="pip install 'vrtspike\\[slurm\\]'"):
        absent.Executor(None, None)
