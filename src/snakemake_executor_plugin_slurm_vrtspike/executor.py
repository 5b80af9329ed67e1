"""Snakemake's Slurm plugin with other questions: none waits for ever, and none loses a job.

What differs from the plugin (2.8), and why:

- It forgets every job, and the run never ends, when no answer comes to five questions in a row, as
  while the controller restarts; and it turns to the accounting then, which there may be none of.
- A job that the controller no longer lists counts as running for ever.
- A submission that meets no controller is a failed job.
- A job that was killed for its memory is submitted again with the same request.
- A job starts Snakemake twice, to have the second one in a step of Slurm's.
- Accounts are asked for by programs without a time limit; ``sbatch`` refuses wrong ones itself.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm import ExecutorSettings as SlurmSettings
from snakemake_executor_plugin_slurm import common_settings
from snakemake_executor_plugin_slurm.utils import get_job_wildcards
from snakemake_executor_plugin_slurm_jobstep import (
    get_cpu_setting,
    get_gpu_setting,
    get_node_setting,
)
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from snakemake_executor_plugin_slurm_vrtspike.settings import MemorySettings
from vrtspike.files import file_mark
from vrtspike.queueing.ask import ask
from vrtspike.queueing.endings import explain, more_memory
from vrtspike.queueing.outage import AGAIN_S, Outage
from vrtspike.queueing.pace import next_interval
from vrtspike.queueing.slurm_jobs import (
    BAD,
    GOOD,
    QueuedJob,
    find_new,
    is_away,
    list_command,
    read_list,
    read_record,
    record_command,
)

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

_IDLE_S = 1.0
"""Seconds until the next look where there is no job to ask for."""
_CANCEL_S = 60.0
"""Seconds for ``scancel``."""
_LOG_END = 20_000
"""Bytes of a job's log in which the reason of its end is looked for."""
_REFUSED = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)

Job = Any
"""Snakemake's, which has no published types."""
Mark = tuple[int, int, int] | None


@dataclass
class ExecutorSettings(MemorySettings, SlurmSettings):
    """Settings of the Slurm plugin, and our own; ``status_command`` is of no use here."""


class Executor(SlurmExecutor):
    """Submits jobs to Slurm, and asks for them until it knows how they ended."""

    def __init__(self, workflow: Any, logger: Any) -> None:  # noqa: ANN401 - Snakemake's
        # The thread that asks begins within the constructor above.
        self._outage = Outage("Slurm's controller", logger.warning)
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._unsubmitted = threading.local()
        self._numbers: set[str] = set()
        self._memory: dict[str, int] = {}
        self._outputs: dict[str, dict[str, Mark]] = {}
        self._unlisted: dict[str, float] = {}
        self._accounting_answers = True
        self._changed = time.monotonic()
        # Unused here; with one the plugin gives advice on which to choose.
        workflow.executor_settings.status_command = None
        super().__init__(workflow, logger)

    def get_account_arg(self, job: Job) -> Iterator[str]:
        """The account of a job, if one is set; ``sbatch`` says what is wrong with it."""
        accounts = re.split(r"[,\s]+", str(job.resources.get("slurm_account") or ""))
        yield f" -A {shlex.quote(accounts[0])}" if accounts[0] else ""

    def additional_general_args(self) -> str:
        """Options of the Snakemake in a job: none, but for arrays, which need another executor."""
        return str(super().additional_general_args()) if self.array_jobs else ""

    def format_job_exec(self, job: Job) -> str:
        """What a job runs: Snakemake, as a step of Slurm's where the program starts none itself."""
        call = str(super().format_job_exec(job))
        if self.array_jobs:
            return call
        step = ""
        if "mpi" not in job.resources.keys():  # noqa: SIM118 - no mapping
            gpus = bool(job.resources.get("gpu"))
            sizes = [get_cpu_setting(job, gpus), get_gpu_setting(job), get_node_setting(job)]
            step = f"srun -n1 --cpu-bind=q {' '.join(filter(None, sizes))} "
        return f"{self.get_python_executable()} -m vrtspike.queueing.step {step}{call}"

    def run_job(self, job: Job) -> None:
        """Submit a job; again and again while no controller answers."""
        try:
            self._submit_until_answered(job)
        except Exception as error:  # this thread's are shown to nobody, and the job would be lost
            super()._report_job_error_threadsafe(
                SubmittedJobInfo(job), f"the submission failed: {error!r}. "
            )

    def _submit_until_answered(self, job: Job) -> None:
        self._outputs[_name(job)] = _output_marks(job)
        with _request(job, self._memory.get(_name(job))):
            while True:
                self._unsubmitted.fault = None
                super().run_job(job)
                if self._unsubmitted.fault is None:
                    self._outage.answered()
                    return
                self._outage.failed(self._unsubmitted.fault)
                if self._needs_no_submission(job):
                    return

    def _needs_no_submission(self, job: Job) -> bool:
        """Wait until the controller lists its jobs; whether this one is there, or the run ends.

        Who submits before it is known what became of the last submission may have two jobs.
        """
        adopted = None
        while adopted is None:
            if self._stopping.wait(AGAIN_S):
                return True
            adopted = self._adopt(job)
        return adopted

    def report_job_submission(self, job_info: SubmittedJobInfo, register_job: bool = True) -> None:
        """A job is in the queue."""
        self._numbers.add(str(job_info.external_jobid))
        self._changed = time.monotonic()
        super().report_job_submission(job_info, register_job=register_job)

    def _report_job_error_threadsafe(self, job_info: SubmittedJobInfo, msg: str) -> None:
        """``sbatch`` failed: kept for :meth:`run_job` if it may succeed later."""
        refused = _REFUSED.search(msg)
        if refused is None:
            super()._report_job_error_threadsafe(job_info, msg)
            return
        said = refused[1].strip().splitlines() or ["sbatch failed and says nothing"]
        if is_away(refused[1]):
            self._unsubmitted.fault = said[-1]
            return
        why = f"Slurm refused it: {'; '.join(line.strip() for line in said)}"

        def report() -> None:
            self.report_job_error(job_info, msg=f"{why}. ", why=why)

        if self._main_event_loop is None:
            report()
        else:
            self._main_event_loop.call_soon_threadsafe(report)

    def _adopt(self, job: Job) -> bool | None:
        """Whether a job was accepted though the answer was lost; None if that is unknown."""
        answer = ask(list_command(self.run_uuid))
        if answer.text is None:
            return None
        wildcards = get_job_wildcards(job)
        comment = f"rule_{job.name}" + f"_wildcards_{wildcards}" * bool(wildcards)
        number = find_new(read_list(answer.text), comment, self._numbers)
        if number is None:
            return False
        self._outage.answered()
        log = self.slurm_logdir / f"rule_{job.name}" / wildcards / f"{number}.log"
        self._report_job_submission_threadsafe(
            SubmittedJobInfo(job, external_jobid=number, aux={"slurm_logfile": log})
        )
        return True

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Ask for the jobs once; yields those that go on."""
        for job in self._check(active_jobs):
            yield job

    def _check(self, active: Sequence[SubmittedJobInfo]) -> Iterator[SubmittedJobInfo]:
        if not active:
            self.next_seconds_between_status_checks = _IDLE_S
            return
        asked = time.monotonic()
        answer = ask(list_command(self.run_uuid))
        answer_s = time.monotonic() - asked
        if answer.text is None:
            self._outage.failed(answer.fault)
            self.next_seconds_between_status_checks = AGAIN_S
            yield from active
            return
        self._outage.answered()
        listed = read_list(answer.text)
        self._accounting_answers = True
        for job in active:
            if self._settle(job, listed):
                self._changed = time.monotonic()
            else:
                yield job
        self.next_seconds_between_status_checks = next_interval(
            self.workflow.executor_settings.init_seconds_before_status_checks,
            time.monotonic() - self._changed,
            answer_s,
        )

    async def sleep(self) -> None:
        """Wait for the next look, or for the end of the run, which waits for this thread.

        Nothing else runs in its event loop.
        """
        self._over.wait(self.next_seconds_between_status_checks)

    def _settle(self, job: SubmittedJobInfo, listed: Mapping[str, QueuedJob]) -> bool:
        """Report a job that has ended; returns whether it has."""
        queued = listed.get(str(job.external_jobid))
        if queued is None:
            return self._settle_unlisted(job)
        self._unlisted.pop(queued.number, None)
        if queued.state == GOOD:
            self._succeed(job)
        elif queued.state in BAD:
            self._fail(job, queued)
        return queued.state == GOOD or queued.state in BAD

    def _settle_unlisted(self, job: SubmittedJobInfo) -> bool:
        """The same for a job that the controller has forgotten: accounting and results tell."""
        number = str(job.external_jobid)
        since = self._unlisted.setdefault(number, time.monotonic())
        state = self._recorded(number)
        if state in BAD:
            self._fail(job, QueuedJob(number, state))
        elif state == GOOD or self._has_made_all(job.job):
            self._succeed(job)
        elif time.monotonic() - since < max(2 * AGAIN_S, self._latency_s):
            return False  # a file system may show results late
        else:
            self._report(job, "Slurm no longer knows it, and its results are not there")
        return True

    def _recorded(self, number: str) -> str | None:
        """The state in the accounting; one that does not answer is asked once in each look."""
        if not self._accounting_answers:
            return None
        answer = ask(record_command(number))
        self._accounting_answers = answer.text is not None
        return read_record(answer.text or "")

    @property
    def _latency_s(self) -> float:
        return float(self.workflow.execution_settings.latency_wait)

    def _has_made_all(self, job: Job) -> bool:
        before = self._outputs.get(_name(job), {})
        now = _output_marks(job)
        return all(mark is not None and mark != before.get(path) for path, mark in now.items())

    def _succeed(self, job: SubmittedJobInfo) -> None:
        self.report_job_success(job)
        log = (job.aux or {}).get("slurm_logfile")
        if log is not None and not self.workflow.executor_settings.keep_successful_logs:
            Path(log).unlink(missing_ok=True)

    def _fail(self, job: SubmittedJobInfo, queued: QueuedJob) -> None:
        name = _name(job.job)
        asked = self._memory.get(name) or job.job.resources.get("mem_mb") or 0
        log = _end_of((job.aux or {}).get("slurm_logfile"))
        ending = explain(queued.state, log, queued.node, queued.limit, asked)
        why = ending.why
        if ending.out_of_memory and asked:
            self._memory[name] = more_memory(asked, self.workflow.executor_settings.memory_limit_mb)
            if job.job.restart_times < job.job.attempt:
                why += "; mem_mb of its rule in the profile (set-resources) gives it more"
            elif self._memory[name] == asked:
                why += ", which is the limit that memory-limit-mb sets"
            else:
                why += f"; it is submitted again and asks for {self._memory[name]} MB"
        self._report(job, why)

    def _report(self, job: SubmittedJobInfo, why: str) -> None:
        log = (job.aux or {}).get("slurm_logfile")
        why = f"Slurm job {job.external_jobid}: {why}"
        logs = [] if log is None else [str(log)]
        self.report_job_error(job, msg=f"{why}. ", aux_logs=logs, why=why)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all jobs; those that cannot be are named."""
        self._stopping.set()
        numbers = [str(job.external_jobid) for job in active_jobs if job.external_jobid]
        if not numbers:
            return
        clusters = ["--clusters=all"] if self._submitted_job_clusters else []
        answer = ask(["scancel", *clusters, *numbers], _CANCEL_S)
        if answer.text is None:
            self.logger.warning(
                f"jobs that could not be cancelled go on ({answer.fault}); to end them: "
                f"scancel {' '.join(numbers)}"
            )

    def shutdown(self) -> None:
        """End with the run, without another look at its jobs."""
        self._stopping.set()
        with self.lock:
            self.wait = False
        self._over.set()  # only now: who asks would not wait between two questions
        super().shutdown()


def _name(job: Job) -> str:
    """The same for all attempts of a job, though Snakemake may make a new object of it."""
    return f"{job.name} {get_job_wildcards(job)} {job.jobid if job.is_group() else ''}".strip()


def _output_marks(job: Job) -> dict[str, Mark]:
    """A job's results as they are now."""
    jobs = job.jobs if job.is_group() else [job]
    paths = [str(path) for each in jobs for path in each.output]
    return {path: file_mark(Path(path)) for path in paths}


@contextlib.contextmanager
def _request(job: Job, memory_mb: int | None) -> Iterator[None]:
    """Have a job ask for this memory; None leaves it. The scheduler's own account stays."""
    if memory_mb is None:
        yield
        return
    resources = job.resources
    before = resources.mem_mb
    _set(resources, "mem_mb", memory_mb)
    try:
        yield
    finally:
        _set(resources, "mem_mb", before)


def _set(resources: Any, name: str, value: int) -> None:  # noqa: ANN401 - Snakemake's
    index, _ = resources._names[name]
    resources[index] = value
    setattr(resources, name, value)


def _end_of(log: Path | None) -> str:
    """The end of a log; nothing where there is none."""
    if log is None or not Path(log).is_file():
        return ""
    return Path(log).read_bytes()[-_LOG_END:].decode("utf-8", "replace")
