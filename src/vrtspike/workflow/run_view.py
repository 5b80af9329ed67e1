"""View of a run: a line per stage, failed jobs with the end of their logs, the result.

The full messages are in ``.snakemake/log``, the output of each job in the log of its rule.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from vrtspike.io.files import file_stamp
from vrtspike.system.line_output import write_line
from vrtspike.system.progress_bar import format_duration
from vrtspike.workflow.job_logs import log_tail
from vrtspike.workflow.plan_view import Show

COMMAND_VARIABLE = "VRTSPIKE_COMMAND"
"""Environment variable: the user's command, if it was not ``snakemake``."""

LONG_STAGES = frozenset({"ingest", "voxelize", "train", "evaluate"})
"""Stages that may take hours: the start of their jobs is shown, with the log."""

_RETRY = re.compile(r"Trying to restart job (\d+)\.")
_IGNORED = ("Assuming unrestricted shared filesystem usage",)
_FINAL = ("Exiting because a job execution failed", "At least one job did not complete")
"""Snakemake's final messages after failed jobs."""
_INTERRUPTED = ("Terminating processes on user request", "Will exit after finishing currently")
_STATUS = re.compile(r"non-zero exit status \d+|died with (?:<[^>]*>|[^.]*)")
_KILLED = (" 137", "SIGKILL: 9>")
"""Suffixes of the status of a killed job."""
_PAGES = ("index.html", "report.html")
"""Names of report pages, the best first."""


@dataclass(frozen=True)
class _Job:
    """A job that makes files.

    Attributes:
        name: rule and wildcards.
        rule: name of its rule.
        outputs: paths of its files.
        log_stamps: marks of its logs before it began, by path.
        is_retried: True after a failed attempt.
    """

    name: str
    rule: str
    outputs: Sequence[str] = ()
    log_stamps: Mapping[str, object] = field(default_factory=dict)
    is_retried: bool = False


class RunView:
    """View of a run: a line per stage, failed jobs with the end of their logs, the result.

    Args:
        default: function that shows a message of Snakemake: warnings, errors, and all before the
            run.
        stream: output of all other lines.
    """

    def __init__(self, default: Show, stream: TextIO) -> None:
        self._default = default
        self._print = partial(write_line, stream)
        self._began = time.monotonic()
        self._stage_began: dict[str, float] = {}
        self._totals: Mapping[str, int] = {}
        self._done: Counter[str] = Counter()
        self._jobs: dict[int, _Job] = {}
        self._written: list[str] = []
        self._failed: list[str] = []
        self._exit_reason = ""
        self._has_begun = False
        self._is_interrupted = False
        self._is_stopped = False

    def show(self, record: logging.LogRecord) -> None:
        """Show a message, or update the state; messages of an unknown form are shown unchanged."""
        fields = vars(record)
        try:
            match fields.get("event"):
                case "workflow_started":
                    self._has_begun = True
                case "run_info":
                    self._totals = fields["stats"]
                case "job_info":
                    self._on_begin(fields)
                case "job_finished":
                    self._on_finished(int(fields["job_id"]))
                case "job_error":
                    self._on_failure(fields)
                case "progress" | "group_info" | "job_started" | "resources_info" | "shellcmd":
                    pass
                case _:
                    self._on_text(record)
        # Messages of another Snakemake, and logs of jobs that cannot be read.
        except (AttributeError, LookupError, OSError, TypeError, ValueError):
            self._default(record)

    def end(self) -> None:
        """Show the result of the run, or how to continue."""
        duration = format_duration(time.monotonic() - self._began)
        if self._is_interrupted:
            command = os.environ.get(COMMAND_VARIABLE) or shlex.join(["snakemake", *sys.argv[1:]])
            self._print(f"continue: {command}")
        elif self._failed or self._is_stopped:
            count = len(self._failed)
            noun = "job" if count == 1 else "jobs"
            failures = f": {count} {noun} failed" if count else ""
            self._print(
                f"stopped after {duration}{failures}. Finished jobs are kept: fix the error, and "
                "run the same command again"
            )
        elif self._written:
            for path in map(Path, self._written):
                if path.name == "summary.txt":
                    self._print(path.read_text(encoding="utf-8").rstrip())
            self._print(f"done in {duration}")
            pages = [path for name in _PAGES for path in self._written if path.endswith(name)]
            if pages:
                self._print(f"report: {pages[0]}")

    def _on_begin(self, fields: Mapping[str, Any]) -> None:
        """Remember a job that begins."""
        outputs = [str(path) for path in fields["output"]]
        if not outputs:
            return  # a target rule
        number = int(fields["jobid"])
        rule = str(fields["rule_name"])
        name = f"{rule} {'/'.join(map(str, fields['wildcards'].values()))}".strip()
        logs = [str(path) for path in fields["log"]]
        stamps = {log: file_stamp(log) for log in logs}
        existing = {log: stamp for log, stamp in stamps.items() if stamp is not None}
        self._jobs[number] = _Job(name, rule, outputs, existing, is_retried=number in self._jobs)
        self._stage_began.setdefault(rule, time.monotonic())
        if rule in LONG_STAGES:
            self._print(f"{name} begins; its log: {', '.join(logs)}")

    def _on_finished(self, number: int) -> None:
        """Count a finished job; report its stage if it was the last."""
        job = self._jobs.pop(number, None)
        if job is None:
            return
        self._written += job.outputs
        self._done[job.rule] += 1
        done = self._done[job.rule]
        # A checkpoint may change the total.
        if done >= self._totals.get(job.rule, 1):
            seconds = time.monotonic() - self._stage_began[job.rule]
            duration = f"{seconds:.1f} s" if seconds < 60 else format_duration(seconds)
            count = f"{done}/{done}"
            self._print(f"{job.rule:<22}{count:>11}{duration:>12}")

    def _on_failure(self, fields: Mapping[str, Any]) -> None:
        """Report a failed job, once."""
        job = self._jobs.get(int(fields["jobid"])) or _Job(str(fields["rule_name"]), "")
        if self._is_interrupted or job.name in self._failed:
            return  # Snakemake 9.19 reports a failure twice
        self._failed.append(job.name)
        reason = str((fields.get("aux") or {}).get("why") or self._exit_reason)
        self._exit_reason = ""
        logs = [str(path) for path in fields["log"]]
        # Logs of an earlier job are ignored.
        new_logs = [log for log in logs if file_stamp(log) != job.log_stamps.get(log, ())]
        if logs and not new_logs and not reason and job.is_retried:
            # Snakemake has not started it again.
            self._print(f"error: {job.name} failed again, as before")
            return
        end = log_tail(new_logs) if new_logs or not logs else "it has written no log"
        status = f" ({reason})" if reason else ""
        self._print(f"error: {job.name} failed{status}; {end}")

    def _on_text(self, record: logging.LogRecord) -> None:
        """Handle a message without event."""
        text = str(record.msg)
        retry = _RETRY.match(text)
        is_before_run = not self._has_begun and not text.startswith(_IGNORED)
        if text.startswith(_INTERRUPTED):
            self._is_interrupted = True
        elif record.levelno >= logging.WARNING:
            self._on_warning(record)
        elif retry is not None:
            self._on_retry(int(retry[1]))
        elif is_before_run or text.startswith("Nothing to be done"):
            self._default(record)

    def _on_warning(self, record: logging.LogRecord) -> None:
        """Show a warning or an error, unless it repeats a job's failure."""
        text = str(record.msg)
        is_final = any(final in text for final in _FINAL)
        if is_final:
            self._is_stopped = True
        status = _STATUS.search(text) if "CalledProcessError" in text else None
        if status is not None:
            # The message is shown with the job's error, which follows.
            self._exit_reason = status[0]
            if status[0].endswith(_KILLED):
                self._exit_reason += ": killed, as when memory is full"
        elif not is_final or not (self._failed or self._is_interrupted):
            self._default(record)

    def _on_retry(self, number: int) -> None:
        """Report that a failed job is started again."""
        job = self._jobs.get(number)
        name = job.name if job else f"job {number}"
        if name in self._failed:
            self._failed.remove(name)
        self._print(f"{name} is retried")
