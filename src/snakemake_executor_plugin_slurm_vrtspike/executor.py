"""Snakemake's Slurm plugin, made to tolerate an unreachable controller (``slurmctld``).

The plugin drops all jobs, and the run never ends, if queries fail for a minute; a job that the
controller no longer lists counts as running for ever; and a submission that meets no controller is
a failed job. So jobs are queried here, and such submissions are repeated.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from vrtspike.cluster.failures import FAILURE_REASONS, explain_failure, is_permanent
from vrtspike.cluster.queries import query
from vrtspike.io.files import file_stamp

RETRY_S = 10.0
"""Seconds until a question without an answer is repeated."""
_COLUMNS = "--Format=JobArrayID:|,State:|,RestartCnt:|"
_LIST = ("squeue", "--noheader", "--array", "--states=all", _COLUMNS, "--name")
_RECORDS = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=JobID,State", "--jobs")
_REFUSED = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
_UNAVAILABLE = re.compile(
    "Unable to (contact slurm controller|establish)|Socket timed out|Zero Bytes were transmitted|"
    "Connection refused|connection failure|not connected|in standby mode|temporarily unavailable"
)
"""Messages of Slurm's programs when the controller cannot be reached."""

SlurmJob = Any
"""Snakemake's, which has no published types."""


class _Answer(NamedTuple):
    """Slurm's answer on a job.

    Attributes:
        state: by its long name, such as RUNNING.
        restarts: how often the job was queued again; 0 if only ``sacct`` lists the job.
    """

    state: str
    restarts: int = 0


class Executor(SlurmExecutor):
    """Submits jobs to Slurm, and queries their states until they have ended."""

    def __init__(self, workflow: Any, logger: Any) -> None:  # noqa: ANN401 - Snakemake's
        # The thread that queries Slurm starts in the constructor of the plugin.
        self._over = threading.Event()
        self._unreachable = False
        self._changed = time.monotonic()
        self._results: dict[Any, dict[str, object]] = {}
        self._unsubmitted: list[SlurmJob] = []
        self._restarts: dict[str, int] = {}
        self._unlisted: dict[str, float] = {}
        # Unused here; with one the plugin gives advice on which to choose.
        workflow.executor_settings.status_command = None
        super().__init__(workflow, logger)

    def get_account_arg(self, job: SlurmJob) -> Iterator[str]:
        """The account of a job, if one is set; ``sbatch`` reports a wrong one."""
        account = job.resources.get("slurm_account")
        yield f" -A {shlex.quote(str(account))}" if account else ""

    def run_job_pre(self, job: SlurmJob) -> None:
        """Before a submission: note which results are there."""
        self._results[job.jobid] = _result_stamps(job)
        self._changed = time.monotonic()
        super().run_job_pre(job)

    def report_job_error(self, job: SubmittedJobInfo, msg: str = "", **details: Any) -> None:  # noqa: ANN401
        """A job has failed; one that met no controller is submitted again when that is back."""
        if refused := _REFUSED.search(msg):
            reason = "; ".join(map(str.strip, refused[1].strip().splitlines()))
            if _UNAVAILABLE.search(reason):
                self._report_controller(reason)
                self._unsubmitted.append(job.job)
                return
            details["why"] = f"Slurm refused it: {reason}"
            _end_attempts(job.job)
        super().report_job_error(job, msg=msg, **details)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Ask for the jobs once; yields those that go on."""
        if not (active_jobs or self._unsubmitted):
            self.next_seconds_between_status_checks = 1.0
            return
        answer = query([*_LIST, self.run_uuid])
        self._report_controller(answer.fault)
        answers = _read(answer.text or "")
        if not self._unreachable:
            waiting, self._unsubmitted = self._unsubmitted, []
            for unsubmitted in waiting:
                self.run_job(unsubmitted)
            if unlisted := sorted({str(job.external_jobid) for job in active_jobs} - set(answers)):
                answers |= _read(query([*_RECORDS, ",".join(unlisted)]).text or "")
        for job in active_jobs:
            if self._unreachable or self._is_active(job, answers.get(str(job.external_jobid))):
                yield job
        rest_s = min(max(1.0, 0.1 * (time.monotonic() - self._changed)), 60.0)
        self.next_seconds_between_status_checks = RETRY_S if self._unreachable else rest_s

    async def sleep(self) -> None:
        """Wait for the next look, or for the end of the run, which waits for this thread."""
        self._over.wait(self.next_seconds_between_status_checks)

    def _is_active(self, job: SubmittedJobInfo, answer: _Answer | None) -> bool:
        """Report a job that has ended or was queued again; returns whether it has not ended."""
        job_id = str(job.external_jobid)
        if answer is not None:
            self._unlisted.pop(job_id, None)
        state, restarts = answer or _Answer(self._state_by_results(job))
        # A job may run again before its state is queried.
        if restarts > self._restarts.get(job_id, 0):
            self._restarts[job_id] = restarts
            why = "its wall time ended, its node failed, or others came first"
            self.logger.warning(f"Slurm job {job_id} ({job.job.name}) was queued again: {why}")
        if state not in FAILURE_REASONS:
            return True
        self._changed = time.monotonic()
        log = Path(job.aux["slurm_logfile"])
        if state == "COMPLETED":
            self.report_job_success(job)
            if not self.workflow.executor_settings.keep_successful_logs:
                log.unlink(missing_ok=True)
            return False
        text = log.read_text(errors="replace") if log.is_file() else ""
        if is_permanent(text):
            _end_attempts(job.job)
        why = f"Slurm job {job_id}: {explain_failure(state, text)}"
        self.report_job_error(job, f"{why}. ", aux_logs=[str(log)], why=why)
        return False

    def _state_by_results(self, job: SubmittedJobInfo) -> str:
        """The state of a job that is unknown to Slurm; a file system may show results late."""
        since = self._unlisted.setdefault(str(job.external_jobid), time.monotonic())
        before = self._results[job.job.jobid]
        if all(mark not in (None, before.get(at)) for at, mark in _result_stamps(job.job).items()):
            return "COMPLETED"
        timeout_s = max(2 * RETRY_S, self.workflow.execution_settings.latency_wait)
        return "LOST" if time.monotonic() - since >= timeout_s else "UNLISTED"

    def _report_controller(self, fault: str) -> None:
        """Tell once that the controller does not answer, and once that it is back."""
        if bool(fault) != self._unreachable:
            self._unreachable = bool(fault)
            news = f"does not answer ({fault}). Jobs go on; it is asked again every {RETRY_S:g} s"
            self.logger.warning(f"Slurm's controller {news if fault else 'answers again'}")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs of this run, and wait until that is done."""
        self._unsubmitted.clear()
        command = ["scancel", "--name", self.run_uuid]
        if fault := query(command, limit_s=60.0).fault:
            self.logger.warning(f"jobs may go on ({fault}); to end them: {shlex.join(command)}")

    def shutdown(self) -> None:
        """End with the run, without another query of its jobs."""
        with self.lock:
            self.wait = False
        self._over.set()  # only now: who asks would not wait between two questions
        super().shutdown()


def _read(text: str) -> dict[str, _Answer]:
    """Answers by number, from ``12 |RUNNING |0 |`` (squeue) or ``12|CANCELLED by 0`` (sacct)."""
    answers = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) < 2:
            continue
        job_id = columns[0]
        state = columns[1].split()[0]
        restarts = int(columns[2]) if len(columns) > 2 else 0
        answers[job_id] = _Answer(state, restarts)
    return answers


def _result_stamps(job: SlurmJob) -> dict[str, object]:
    return {str(path): file_stamp(path) for path in job.output}


def _end_attempts(job: SlurmJob) -> None:
    """Have Snakemake not try a job again whose next attempt would fail alike."""
    job.attempt = max(job.attempt, job.restart_times + 1)
