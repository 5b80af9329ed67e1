"""View of a plan: Snakemake's messages, and a summary at the end.

The summary has a line per stage that would run, with reasons and its last duration.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from vrtspike.system.errors import first_few
from vrtspike.system.line_output import write_line
from vrtspike.system.progress_bar import format_duration

SUMMARY_ONLY_VARIABLE = "VRTSPIKE_SUMMARY_ONLY"
"""Environment variable: show only the complete summary of a plan, on standard output."""

SUMMARY_LINES = 6
"""Maximum number of lines of the summary in a dry run."""

Show = Callable[[logging.LogRecord], None]
"""Function that shows a message as Snakemake does."""

_INPUT_RERUN = "what it reads is made again"
_UNDECIDED = "decided when the data are made again"
_UNKNOWN_INPUT = "<TBD>"
"""Snakemake's placeholder for inputs that depend on a checkpoint."""
_VERSION = re.compile(r"[0-9a-f]{12}")
_PARAMS = re.compile(r"before: (?P<before>.*?) now: (?P<now>.*)", re.DOTALL)
_ITEM = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_MISSING = "no result yet"
_REASONS = {
    "Forced execution": "asked for",
    "Missing output files": _MISSING,
    "Incomplete output files": "interrupted",
    "Updated input files": "what it reads is newer",
    "Input files updated by another job": _INPUT_RERUN,
    "Set of input files has changed": "it reads other files than before",
    "Code has changed": "its rule was edited",
    "Software environment": "its environment was changed",
}


PlannedJob = Mapping[str, Any]
"""The fields of Snakemake's event ``job_info``."""


class PlanView:
    """View of a plan as Snakemake shows it, with a summary at the end.

    Args:
        default: function that shows a message.
        stream: output of the summary.
        max_lines: lines of the summary. None shows all of them, and of the messages only warnings
            and errors.
    """

    def __init__(self, default: Show, stream: TextIO, max_lines: int | None) -> None:
        self._default = default
        self._stream = stream
        self._max_lines = max_lines
        self._jobs: list[PlannedJob] = []
        self._is_planned = False

    def show(self, record: logging.LogRecord) -> None:
        """Show a message."""
        event = getattr(record, "event", None)
        if event == "job_info" and vars(record)["output"]:
            self._jobs.append(vars(record))
        if event == "run_info" or str(record.msg).startswith("Nothing to be done"):
            self._is_planned = True
        if self._max_lines is not None or record.levelno >= logging.WARNING:
            self._default(record)

    def end(self) -> None:
        """Show the summary of the plan, if any."""
        if self._is_planned:
            write_line(self._stream, "\n".join(summary(self._jobs, self._max_lines)))


def summary(jobs: Iterable[PlannedJob], max_lines: int | None = None) -> list[str]:
    """Return a line per stage that would run, with reasons and its last duration.

    Args:
        jobs: jobs of a plan, in its order.
        max_lines: upper limit; None for a line per stage.
    """
    stages: dict[str, list[PlannedJob]] = {}
    for job in jobs:
        subject = job["wildcards"].get("preset") or job["wildcards"].get("dataset")
        stages.setdefault(f"{job['rule_name']} {subject or ''}".strip(), []).append(job)
    if not stages:
        return ["nothing to be done"]
    costs = {title: _cost(stage_jobs) for title, stage_jobs in stages.items()}
    lines = [_line(title, stage_jobs, costs[title]) for title, stage_jobs in stages.items()]
    if max_lines is not None and len(lines) > max_lines:
        left = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"and {left} more stages; vrtspike why lists them all"]
    measured = [cost for cost in costs.values() if cost is not None]
    if len(measured) > 2:
        lines.append(f"together {format_duration(sum(measured))} last time")
    return lines


def _line(title: str, jobs: Sequence[PlannedJob], cost: float | None) -> str:
    """Return the line of a stage."""
    reasons = list(dict.fromkeys(reason for job in jobs for reason in _reasons(job)))
    number = f" ({len(jobs)} jobs)" if len(jobs) > 1 else ""
    took = "" if cost is None else f"; took {format_duration(cost)} last time"
    return f"{title}{number}: {first_few(reasons)}{took}"


def _cost(jobs: Sequence[PlannedJob]) -> float | None:
    """Return the last duration of jobs in seconds, extrapolated to jobs that never ran."""
    durations = [_seconds(job["benchmark"]) for job in jobs]
    seconds = [duration for duration in durations if duration is not None]
    if not seconds:
        return None
    return sum(seconds) * len(jobs) / len(seconds)


def _seconds(benchmark: str | None) -> float | None:
    """Return the seconds of a job's last run; None if they are unknown."""
    try:
        header, *_, last = Path(str(benchmark)).read_text(encoding="utf-8").splitlines()
        return float(last.split("\t")[header.split("\t").index("s")])
    except (OSError, ValueError):
        return None


def _reasons(job: PlannedJob) -> list[str]:
    """Return the reasons of a job.

    Snakemake plans a job behind a checkpoint because its inputs are made again, and drops it if
    they come out unchanged.
    """
    reasons = short_reasons(job["reason"])
    awaits_checkpoint = _UNKNOWN_INPUT in map(str, job["input"] or ())
    if awaits_checkpoint and reasons == [_INPUT_RERUN]:
        return [_UNDECIDED]
    return reasons


def short_reasons(reason: str) -> list[str]:
    """Shorten Snakemake's reasons for a job.

    >>> short_reasons("Incomplete output files: results/a.json; Updated input files: b.json")
    ['interrupted', 'what it reads is newer']
    """
    reasons: list[str] = []
    for part in reason.split("; "):
        short_forms = [short for long, short in _REASONS.items() if part.startswith(long)]
        changed = _changed_params(part) if part.startswith("Params have changed") else []
        reasons += short_forms or changed or [part]
    return [_MISSING] if _MISSING in reasons else reasons


def _changed_params(text: str) -> list[str]:
    """Describe the params that Snakemake reports as changed."""
    match = _PARAMS.search(text)
    if match is None:
        return ["its parameters changed"]
    before = _parse_params(match["before"])
    now = _parse_params(match["now"])
    changes = []
    for name in {**now, **before}:
        old = before.get(name)
        new = now.get(name)
        if old == new:
            continue
        if _VERSION.fullmatch(new or old or ""):
            changes.append(f"code of {name}" if name.endswith(".py") else f"{name} changed")
        elif old is None or new is None:
            changes.append(f"{name} {new or old}".strip())
        else:
            changes.append(f"{name} {old} -> {new}")
    return changes or ["its parameters changed"]


def _parse_params(text: str) -> dict[str, str]:
    """Parse Snakemake's list of quoted params, ``KEY: value`` or ``file digest``."""
    params = {}
    for single, double in _ITEM.findall(text):
        line = single or double
        if ": " in line:
            key, _, value = line.partition(": ")
        else:
            key, _, value = line.rpartition(" ")
        params[key] = value
    return params
