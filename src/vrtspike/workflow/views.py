"""Short views of Snakemake's messages: a line per stage, errors with the end of their log.

The full messages are in ``.snakemake/log``, the output of each job in the log of its rule.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from vrtspike.io.files import disk_full_error, file_mark
from vrtspike.system.progress_bar import format_duration
from vrtspike.workflow.plan_summary import DueJob, due_job, summary

LOG_LINES = 20
"""Shown lines of a failed job's log that contains no message ``error:``."""

MESSAGE_LINES = 100
"""Shown lines of a message ``error:``, which may list thousands of sequences."""

_ERROR = re.compile(r"error(?: \(process \d+\))?: ")
_SAVED = re.compile(r"saved at step \d+ of \d+; ")
"""Message of a training that was stopped and has saved its state."""


def log_end(logs: Sequence[str], lines: int = LOG_LINES) -> str:
    """The end of the first non-empty log of a failed job.

    It starts at the last line that starts with ``error:``; the middle of a long message is left
    out. Of a training that was stopped and saved, it is that message.

    >>> log_end([])
    'it has no log'
    """
    for log in logs:
        path = Path(log)
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        # Of a redrawn progress bar only the last state is shown.
        found = [line.rsplit("\r", 1)[-1].rstrip() for line in text.rstrip().split("\n")]
        if any(found):
            errors = [number for number, line in enumerate(found) if _ERROR.match(line)]
            saved = [line for line in found if _SAVED.search(line)]
            if saved and not errors:
                return f"{saved[-1]} ({log})"
            first = errors[-1] if errors else max(0, len(found) - lines)
            shown = _without_middle(found[first:], log)
            return "\n".join([f"the end of {log}:", *(f"    {line}" for line in shown)])
    if not logs:
        return "it has no log"
    full = next((log for log in logs if disk_full_error(Path(log).parent)), None)
    if full is not None:
        return f"{full}: the disk is full; free space and run again"
    return f"its log is empty: {', '.join(logs)}"


def _without_middle(lines: list[str], log: str) -> list[str]:
    """The first lines of a long message and the last one, which says what to do."""
    left = len(lines) - MESSAGE_LINES
    if left <= 0:
        return lines
    beginning = lines[: MESSAGE_LINES - 1]
    return [*beginning, f"  ... and {left} lines more, in {log}", lines[-1]]


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


class PlanView:
    """Shows a plan as Snakemake does, with a summary at the end.

    Args:
        default: shows a message as Snakemake does.
        stream: for the summary.
        max_lines: lines of the summary; None is all, and nothing else but warnings and errors.
    """

    def __init__(
        self, default: Callable[[logging.LogRecord], None], stream: TextIO, max_lines: int | None
    ) -> None:
        self._default, self._stream, self._max_lines = default, stream, max_lines
        self._jobs: list[DueJob] = []
        self._is_planned = False

    def show(self, record: logging.LogRecord) -> None:
        """Show a message."""
        event = getattr(record, "event", None)
        if event == "job_info" and vars(record)["output"]:
            self._jobs.append(due_job(vars(record), vars(record)["reason"]))
        self._is_planned |= event == "run_info" or str(record.msg).startswith("Nothing to be done")
        if self._max_lines is not None or record.levelno >= logging.WARNING:
            self._default(record)

    def end(self) -> None:
        """Show the summary of the plan, if any."""
        if self._is_planned:
            print("\n".join(summary(self._jobs, self._max_lines)), file=self._stream, flush=True)


class _Stage:
    """The jobs of one rule: running ones with their logs, number of finished ones, seconds."""

    def __init__(self, total: int) -> None:
        self.running: dict[int, list[str]] = {}
        self.done, self.reported, self.total = 0, 0, total
        self.seconds, self._since = 0.0, 0.0

    def start(self, job: int, logs: list[str]) -> None:
        """A job starts; a retried job starts several times."""
        if not self.running:
            self._since = time.monotonic()
        self.running[job] = logs

    def end_job(self, job: int) -> bool:
        """A job ends; returns whether it was running."""
        found = self.running.pop(job, None) is not None
        if found and not self.running:
            self.seconds += time.monotonic() - self._since
        return found

    def complete(self) -> bool:
        """Whether all its jobs are done and this was not reported yet."""
        new = self.done > self.reported and self.done >= self.total and not self.running
        self.reported = self.done if new else self.reported
        return new


class RunView:
    """Shows a run: a line per stage, failed jobs with the end of their logs, the result.

    Args:
        default: shows a message as Snakemake does: warnings, errors, and all before the run.
        stream: for all other lines.
        quiet: whether to show errors only.
    """

    def __init__(
        self, default: Callable[[logging.LogRecord], None], stream: TextIO, quiet: bool = False
    ) -> None:
        self._default, self._stream, self._quiet = default, stream, quiet
        self._began = time.monotonic()
        self._stages: dict[str, _Stage] = {}
        self._rules: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._outputs: dict[int, list[str]] = {}
        self._logs: dict[int, dict[str, object]] = {}
        self._written: list[str] = []
        self._failed: list[str] = []
        self._retried: set[str] = set()
        self._exit_reason = ""
        self._has_begun = self._interrupted = self._stopped = False
        self._events: dict[str, Callable[[dict[str, Any]], None]] = {
            "workflow_started": self._on_begin,
            "run_info": self._on_totals,
            "job_info": self._on_job,
            "job_finished": self._on_finished,
            "progress": self._on_progress,
            "job_error": self._on_failure,
            **dict.fromkeys(
                ("group_info", "job_started", "resources_info", "shellcmd"), lambda fields: None
            ),
        }

    def show(self, record: logging.LogRecord) -> None:
        """Show a message, or update the state; messages of an unknown form are shown unchanged."""
        event = str(getattr(record, "event", None))
        try:
            if event in self._events:
                self._events[event](vars(record))
            else:
                self._on_text(record)
        except Exception:  # it would end the logging thread
            self._default(record)

    def say(self, text: str) -> None:
        """Print a text."""
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        """Show the result of the run, or how to continue."""
        for rule in list(self._stages):
            self._stages[rule].running.clear()
        duration = format_duration(time.monotonic() - self._began)
        if self._interrupted:
            self.say(f"continue: {shlex.join(_typed_command())}")
        elif self._failed or self._stopped:
            count = len(self._failed)
            failed = f": {count} job{'s' * (count > 1)} failed" if count else ""
            self.say(
                f"stopped after {duration}{failed}. Finished jobs are kept: fix the error, and run "
                "the same command again"
            )
        elif self._written and not self._quiet:
            for line in _results(self._written, f"done in {duration}"):
                self.say(line)

    def _on_begin(self, fields: Mapping[str, Any]) -> None:
        self._has_begun = True

    def _on_totals(self, fields: Mapping[str, Any]) -> None:
        for rule, total in fields["stats"].items():
            self._stages.setdefault(rule, _Stage(0)).total = total

    def _on_job(self, fields: Mapping[str, Any]) -> None:
        job, rule = int(fields["jobid"]), str(fields["rule_name"])
        self._names[job] = " ".join(
            [rule, "/".join(map(str, fields["wildcards"].values()))]
        ).strip()
        if not fields["output"]:
            return  # a target rule
        logs = list(map(str, fields["log"]))
        self._rules[job], self._outputs[job] = rule, list(map(str, fields["output"]))
        marks = ((log, file_mark(Path(log))) for log in logs)
        self._logs[job] = {log: mark for log, mark in marks if mark is not None}
        self._stages.setdefault(rule, _Stage(1)).start(job, logs)
        if rule in LONG_STAGES and not self._quiet:
            self.say(f"{self._names[job]} begins; its log: {', '.join(logs)}")

    def _on_finished(self, fields: Mapping[str, Any]) -> None:
        job = int(fields["job_id"])
        stage = self._stages.get(self._rules.get(job, ""))
        if stage is not None and stage.end_job(job):
            stage.done += 1
            self._written += self._outputs[job]

    def _on_progress(self, fields: Mapping[str, Any]) -> None:
        for rule, stage in self._stages.items():
            if stage.complete() and not self._quiet:
                spent = stage.seconds
                took = f"{spent:.1f} s" if spent < 60 else format_duration(spent)
                count = f"{stage.done}/{max(stage.total, stage.done)}"
                self.say(f"{rule:<22}{count:>11}{took:>12}")

    def _on_failure(self, fields: Mapping[str, Any]) -> None:
        job, rule = int(fields["jobid"]), str(fields["rule_name"])
        if rule in self._stages:
            self._stages[rule].end_job(job)
        if self._interrupted:
            return
        name = self._names.get(job, rule)
        if name in self._failed:
            return  # Snakemake 9.19 reports a failure twice
        self._failed.append(name)
        # From a cluster's executor, or from the message before.
        why = str((fields.get("aux") or {}).get("why") or self._exit_reason)
        how, self._exit_reason = f" ({why})" if why else "", ""
        before, logs = self._logs.get(job, {}), [str(path) for path in fields["log"]]
        # Ignore logs that an earlier job has written.
        own = [log for log in logs if log not in before or file_mark(Path(log)) != before[log]]
        if not own and logs and not why and name in self._retried:
            self.say(f"error: {name} failed again, as before")  # it was not started
            return
        end = log_end(own) if own or not logs else "it has written no log"
        self.say(f"error: {name} failed{how}; {end}")

    def _on_text(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        known = bool(self._failed) or self._interrupted
        if text.startswith(_INTERRUPTED):
            self._interrupted = True
        elif record.levelno >= logging.WARNING:
            is_final = any(final in text for final in _FINAL)
            self._stopped |= is_final
            status = _STATUS.search(text) if "CalledProcessError" in text else None
            if status is not None:  # shown with the job's error, which follows
                killed = status[0].endswith((" 137", "SIGKILL: 9>"))
                self._exit_reason = status[0] + ": killed, as when memory is full" * killed
            elif not (known and is_final):
                self._default(record)
        elif again := _RETRY.match(text):
            name = self._names.get(int(again[1]), f"job {again[1]}")
            self._retried.add(name)
            if name in self._failed:
                self._failed.remove(name)
            self.say(f"{name} is retried")
        elif text.startswith("Nothing to be done") or not (
            self._has_begun or text.startswith(_IGNORED)
        ):
            self._default(record)


def _typed_command() -> list[str]:
    """The user's command: that in :data:`COMMAND`, or snakemake with its arguments."""
    typed = os.environ.get(COMMAND)
    return typed.split() if typed else ["snakemake", *sys.argv[1:]]


def _results(made: list[str], done: str) -> list[str]:
    """Lines on the results of a run: summaries, and the report page."""
    lines = []
    for path in map(Path, made):
        if path.name == "summary.txt":
            with contextlib.suppress(OSError):
                lines.append(path.read_text(encoding="utf-8").rstrip())
    lines.append(done)
    pages = [path for name in ("index.html", "report.html") for path in made if path.endswith(name)]
    return [*lines, *(f"report: {page}" for page in pages[:1])]
