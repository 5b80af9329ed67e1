"""Short views of Snakemake's messages: a line per stage, errors with the end of their log.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from vrtspike.io.files import disk_full_error, file_mark
from vrtspike.system.progress_bar import format_duration
from vrtspike.workflow.plan_summary import summary

LOG_LINES = 20
"""Shown lines of a failed job's log that contains no message ``error:``."""

MESSAGE_LINES = 100
"""Shown lines of a message ``error:``, which may list thousands of sequences."""

_ERROR = re.compile(r"error(?: \(process \d+\))?: ")
_SAVED = re.compile(r"saved at step \d+ of \d+; ")
"""Message of a training that was stopped and has saved its state."""


def log_end(logs: Sequence[str]) -> str:
    """The end of the first non-empty log of a failed job.

    It starts at the last line that starts with ``error:``; the middle of a long message is left
    out. Of a training that was stopped and saved, it is that message.

    >>> log_end([])
    'it has no log'
    """
    if not logs:
        return "it has no log"
    for log in logs:
        path = Path(log)
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        # Of a redrawn progress bar only the last state is shown.
        found = [line.rsplit("\r", 1)[-1].rstrip() for line in text.rstrip().split("\n")]
        if not any(found):
            continue
        errors = [number for number, line in enumerate(found) if _ERROR.match(line)]
        saved = [line for line in found if _SAVED.search(line)]
        if saved and not errors:
            return f"{saved[-1]} ({log})"
        shown = found[errors[-1] :] if errors else found[-LOG_LINES:]
        if (left := len(shown) - MESSAGE_LINES) > 0:
            # The last line says what to do.
            shown[MESSAGE_LINES - 1 : -1] = [f"  ... and {left} lines more, in {log}"]
        return "\n".join([f"the end of {log}:", *(f"    {line}" for line in shown)])
    full = next((log for log in logs if disk_full_error(Path(log).parent)), None)
    if full is not None:
        return f"{full}: the disk is full; free space and run again"
    return f"its log is empty: {', '.join(logs)}"


COMMAND = "VRTSPIKE_COMMAND"
"""Environment variable: the user's command, if it was not ``snakemake``."""
SUMMARY_ONLY = "VRTSPIKE_SUMMARY_ONLY"
"""Environment variable: show only the complete summary of a plan, on standard output."""

SUMMARY_LINES = 6
LONG_STAGES = frozenset({"ingest", "voxelize", "train", "evaluate"})
"""Stages that may take hours: the start of their jobs is shown, with the log."""

_RETRY = re.compile(r"Trying to restart job (\d+)\.")
_IGNORED = ("Assuming unrestricted shared filesystem usage",)
_FINAL = ("Exiting because a job execution failed", "At least one job did not complete")
"""Snakemake's final messages after failed jobs."""
_INTERRUPTED = ("Terminating processes on user request", "Will exit after finishing currently")
_STATUS = re.compile(r"non-zero exit status \d+|died with (?:<[^>]*>|[^.]*)")
_PAGES = ("index.html", "report.html")
"""Names of report pages, the best first."""

Show = Callable[[logging.LogRecord], None]
"""Shows a message as Snakemake does."""


class PlanView:
    """Shows a plan as Snakemake does, with a summary at the end.

    Args:
        default: shows a message.
        stream: for the summary.
        max_lines: lines of the summary; None is all, and nothing else but warnings and errors.
    """

    def __init__(self, default: Show, stream: TextIO, max_lines: int | None) -> None:
        self._default, self._stream, self._max_lines = default, stream, max_lines
        self._jobs: list[Mapping[str, Any]] = []
        self._is_planned = False

    def show(self, record: logging.LogRecord) -> None:
        """Show a message."""
        event = getattr(record, "event", None)
        if event == "job_info" and vars(record)["output"]:
            self._jobs.append(vars(record))
        self._is_planned |= event == "run_info" or str(record.msg).startswith("Nothing to be done")
        if self._max_lines is not None or record.levelno >= logging.WARNING:
            self._default(record)

    def end(self) -> None:
        """Show the summary of the plan, if any."""
        if self._is_planned:
            print("\n".join(summary(self._jobs, self._max_lines)), file=self._stream, flush=True)


@dataclass(frozen=True)
class _Job:
    """A job that makes files; the marks are those of its logs before it began."""

    name: str
    rule: str
    outputs: Sequence[str] = ()
    marks: Mapping[str, object] = field(default_factory=dict)
    is_retried: bool = False


class RunView:
    """Shows a run: a line per stage, failed jobs with the end of their logs, the result.

    Args:
        default: shows a message: warnings, errors, and all before the run.
        stream: for all other lines.
    """

    def __init__(self, default: Show, stream: TextIO) -> None:
        self._default = default
        self._say = partial(print, file=stream, flush=True)
        self._began = time.monotonic()
        self._stage_began: dict[str, float] = {}
        self._totals: Mapping[str, int] = {}
        self._done: Counter[str] = Counter()
        self._jobs: dict[int, _Job] = {}
        self._written: list[str] = []
        self._failed: list[str] = []
        self._exit_reason = ""
        self._has_begun = self._interrupted = self._stopped = False

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
        except Exception:  # it would end the logging thread
            self._default(record)

    def end(self) -> None:
        """Show the result of the run, or how to continue."""
        duration = format_duration(time.monotonic() - self._began)
        if self._interrupted:
            typed = os.environ.get(COMMAND) or shlex.join(["snakemake", *sys.argv[1:]])
            self._say(f"continue: {typed}")
        elif self._failed or self._stopped:
            count = len(self._failed)
            failed = f": {count} job{'s' * (count > 1)} failed" if count else ""
            self._say(
                f"stopped after {duration}{failed}. Finished jobs are kept: fix the error, and run "
                "the same command again"
            )
        elif self._written:
            for path in map(Path, self._written):
                if path.name == "summary.txt":
                    self._say(path.read_text(encoding="utf-8").rstrip())
            self._say(f"done in {duration}")
            pages = [p for name in _PAGES for p in self._written if p.endswith(name)]
            for page in pages[:1]:
                self._say(f"report: {page}")

    def _on_begin(self, fields: Mapping[str, Any]) -> None:
        number, rule = int(fields["jobid"]), str(fields["rule_name"])
        outputs, logs = (list(map(str, fields[name])) for name in ("output", "log"))
        if not outputs:
            return  # a target rule
        name = f"{rule} {'/'.join(map(str, fields['wildcards'].values()))}".strip()
        marks = {log: mark for log in logs if (mark := file_mark(log)) is not None}
        self._jobs[number] = _Job(name, rule, outputs, marks, is_retried=number in self._jobs)
        self._stage_began.setdefault(rule, time.monotonic())
        if rule in LONG_STAGES:
            self._say(f"{name} begins; its log: {', '.join(logs)}")

    def _on_finished(self, number: int) -> None:
        job = self._jobs.pop(number, None)
        if job is None:
            return
        self._written += job.outputs
        self._done[job.rule] += 1
        done = self._done[job.rule]
        # A checkpoint may change the total.
        if done >= self._totals.get(job.rule, 1):
            spent = time.monotonic() - self._stage_began[job.rule]
            took = f"{spent:.1f} s" if spent < 60 else format_duration(spent)
            self._say(f"{job.rule:<22}{f'{done}/{done}':>11}{took:>12}")

    def _on_failure(self, fields: Mapping[str, Any]) -> None:
        job = self._jobs.get(int(fields["jobid"])) or _Job(str(fields["rule_name"]), "")
        if self._interrupted or job.name in self._failed:
            return  # Snakemake 9.19 reports a failure twice
        self._failed.append(job.name)
        # From a cluster's executor, or from the message before.
        why = str((fields.get("aux") or {}).get("why") or self._exit_reason)
        how, self._exit_reason = f" ({why})" if why else "", ""
        logs = [str(path) for path in fields["log"]]
        # Ignore logs that an earlier job has written.
        own = [log for log in logs if file_mark(log) != job.marks.get(log, ())]
        if not own and logs and not why and job.is_retried:
            self._say(f"error: {job.name} failed again, as before")  # it was not started
            return
        end = log_end(own) if own or not logs else "it has written no log"
        self._say(f"error: {job.name} failed{how}; {end}")

    def _on_text(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        if text.startswith(_INTERRUPTED):
            self._interrupted = True
        elif record.levelno >= logging.WARNING:
            is_final = any(final in text for final in _FINAL)
            self._stopped |= is_final
            status = _STATUS.search(text) if "CalledProcessError" in text else None
            if status is not None:  # shown with the job's error, which follows
                killed = status[0].endswith((" 137", "SIGKILL: 9>"))
                self._exit_reason = status[0] + ": killed, as when memory is full" * killed
            elif not (is_final and (self._failed or self._interrupted)):
                self._default(record)
        elif again := _RETRY.match(text):
            job = self._jobs.get(int(again[1]))
            name = job.name if job else f"job {again[1]}"
            if name in self._failed:
                self._failed.remove(name)
            self._say(f"{name} is retried")
        elif text.startswith("Nothing to be done") or not (
            self._has_begun or text.startswith(_IGNORED)
        ):
            self._default(record)
