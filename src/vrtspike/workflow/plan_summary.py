"""Summary of a plan: a line per stage that would run, with reasons and its last duration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.system.errors import first_few
from vrtspike.system.progress_bar import format_duration

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


Job = Mapping[str, Any]
"""The fields of Snakemake's event ``job_info``."""


def summary(jobs: Iterable[Job], max_lines: int | None = None) -> list[str]:
    """A line per stage that would run, with reasons and its last duration.

    Args:
        jobs: of a plan, in its order.
        max_lines: upper limit; None for a line per stage.
    """
    stages: dict[str, list[Job]] = {}
    for job in jobs:
        subject = job["wildcards"].get("preset") or job["wildcards"].get("dataset")
        stages.setdefault(f"{job['rule_name']} {subject or ''}".strip(), []).append(job)
    if not stages:
        return ["nothing to be done"]
    costs = {title: _cost(found) for title, found in stages.items()}
    lines = [_line(title, found, costs[title]) for title, found in stages.items()]
    if max_lines is not None and len(lines) > max_lines:
        left = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"and {left} more stages; vrtspike why lists them all"]
    measured = [cost for cost in costs.values() if cost is not None]
    if len(measured) > 2:
        lines.append(f"together {format_duration(sum(measured))} last time")
    return lines


def _line(title: str, jobs: Sequence[Job], cost: float | None) -> str:
    reasons = list(dict.fromkeys(reason for job in jobs for reason in _reasons(job)))
    number = f" ({len(jobs)} jobs)" if len(jobs) > 1 else ""
    took = "" if cost is None else f"; took {format_duration(cost)} last time"
    return f"{title}{number}: {first_few(reasons)}{took}"


def _cost(jobs: Sequence[Job]) -> float | None:
    """Last duration of jobs in seconds, extrapolated to those that never ran."""
    seconds = [found for job in jobs if (found := _seconds(job["benchmark"])) is not None]
    return sum(seconds) * len(jobs) / len(seconds) if seconds else None


def _seconds(benchmark: str | None) -> float | None:
    """Seconds of a job's last run; None if they are unknown."""
    try:
        header, *_, last = Path(str(benchmark)).read_text(encoding="utf-8").splitlines()
        return float(last.split("\t")[header.split("\t").index("s")])
    except (OSError, ValueError):
        return None


def _reasons(job: Job) -> list[str]:
    """The reasons of a job.

    Snakemake plans a job behind a checkpoint because its inputs are made again, and drops it if
    they come out unchanged.
    """
    found = short_reasons(job["reason"])
    awaits_checkpoint = _UNKNOWN_INPUT in map(str, job["input"] or ())
    return [_UNDECIDED] if awaits_checkpoint and found == [_INPUT_RERUN] else found


def short_reasons(reason: str) -> list[str]:
    """Snakemake's reasons for a job, shortened.

    >>> short_reasons("Incomplete output files: results/a.json; Updated input files: b.json")
    ['interrupted', 'what it reads is newer']
    """
    found: list[str] = []
    for part in reason.split("; "):
        known = [short for long, short in _REASONS.items() if part.startswith(long)]
        changed = _changed_params(part) if part.startswith("Params have changed") else []
        found += known or changed or [part]
    return [_MISSING] if _MISSING in found else found


def _changed_params(text: str) -> list[str]:
    match = _PARAMS.search(text)
    before, now = (
        dict(_key_and_value(one or other) for one, other in _ITEM.findall(part))
        for part in (match.groups() if match else ("", ""))
    )
    found = []
    for name in {**now, **before}:
        then, value = before.get(name), now.get(name)
        if then == value:
            continue
        if _VERSION.fullmatch(value or then or ""):
            found.append(f"code of {name}" if name.endswith(".py") else f"{name} changed")
        elif then is None or value is None:
            found.append(f"{name} {value or then}".strip())
        else:
            found.append(f"{name} {then} -> {value}")
    return found or ["its parameters changed"]


def _key_and_value(line: str) -> tuple[str, str]:
    """A line of params, ``KEY: value`` or ``file digest``, as a pair."""
    key, _, value = line.partition(": ") if ": " in line else line.rpartition(" ")
    return key, value
