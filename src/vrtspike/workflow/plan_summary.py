"""Summary of a plan: a line per stage that would run, with reasons and its last duration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrtspike.system.progress_bar import format_duration

_MAX_REASONS = 3
_INPUT_RERUN = "Input files updated by another job"
_UNDECIDED = "decided when the data are made again"
_UNKNOWN_INPUT = "<TBD>"
"""Snakemake's placeholder for inputs that depend on a checkpoint."""
_VERSION = re.compile(r"[0-9a-f]{12}")
_LINE = re.compile(r"(.+?)(?:: | (?=[0-9a-f]{12}$))(.*)", re.DOTALL)
_PARAMS = re.compile(r"before: (?P<before>.*?) now: (?P<now>.*)", re.DOTALL)
_ITEM = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_MISSING = "no result yet"
_REASONS = {
    "Forced execution": "asked for",
    "Missing output files": _MISSING,
    "Incomplete output files": "interrupted",
    "Updated input files": "what it reads is newer",
    _INPUT_RERUN: "what it reads is made again",
    "Set of input files has changed": "it reads other files than before",
    "Code has changed": "its rule was edited",
    "Software environment": "its environment was changed",
}


@dataclass(frozen=True)
class DueJob:
    """A job that would run.

    Attributes:
        rule: its rule.
        wildcards: of the job.
        reason: from Snakemake.
        benchmark: file with the seconds of its last run; None if the rule has none.
        awaits_checkpoint: whether its inputs depend on a checkpoint that has not run.
    """

    rule: str
    wildcards: dict[str, str]
    reason: str
    benchmark: Path | None
    awaits_checkpoint: bool = False


@dataclass
class _Stage:
    """The jobs of a rule for one preset or data set."""

    title: str
    jobs: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    measured: int = 0

    def line(self) -> str:
        """The stage in one line: jobs, reasons, last duration."""
        reasons = list(self.reasons)
        shown = ", ".join(reasons[:_MAX_REASONS])
        if len(reasons) > _MAX_REASONS:
            shown += f", and {len(reasons) - _MAX_REASONS} more"
        jobs = f" ({self.jobs} jobs)" if self.jobs > 1 else ""
        if self.cost is None:
            return f"{self.title}{jobs}: {shown}"
        return f"{self.title}{jobs}: {shown}; took {format_duration(self.cost)} last time"

    @property
    def cost(self) -> float | None:
        """Last duration of its jobs in seconds, extrapolated to jobs that never ran."""
        return self.seconds * self.jobs / self.measured if self.measured else None


def _stages(jobs: Iterable[DueJob]) -> list[_Stage]:
    """Group jobs by rule and preset or data set, in their order."""
    found: dict[str, _Stage] = {}
    for job in jobs:
        subject = job.wildcards.get("preset") or job.wildcards.get("dataset")
        title = f"{job.rule} {subject}" if subject else job.rule
        stage = found.setdefault(title, _Stage(title))
        stage.jobs += 1
        reasons = [_UNDECIDED] if _is_undecided(job) else short_reasons(job.reason)
        stage.reasons |= dict.fromkeys(reasons)
        seconds = _seconds(job.benchmark)
        if seconds is not None:
            stage.seconds += seconds
            stage.measured += 1
    return list(found.values())


def _is_undecided(job: DueJob) -> bool:
    """Whether a job may turn out not to be due after a checkpoint has run.

    Snakemake plans it because its inputs are made again, and drops it if they come out unchanged.
    """
    reasons = [part.partition(":")[0] for part in job.reason.split("; ")]
    return job.awaits_checkpoint and reasons == [_INPUT_RERUN]


def short_reasons(reason: str) -> list[str]:
    """Snakemake's reasons for a job, shortened.

    >>> short_reasons("Incomplete output files: results/a.json; Updated input files: b.json")
    ['interrupted', 'what it reads is newer']
    """
    found: list[str] = []
    for part in reason.split("; "):
        if part.startswith("Params have changed"):
            found += _changed_params(part)
            continue
        known = [short for long, short in _REASONS.items() if part.startswith(long)]
        found += known or [part]
    return [_MISSING] if _MISSING in found else found


def _changed_params(text: str) -> list[str]:
    match = _PARAMS.search(text)
    if match is None:
        return ["its parameters changed"]
    before, now = (dict(map(_key_and_value, _items(match[name]))) for name in ("before", "now"))
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


def _items(text: str) -> list[str]:
    return [match[1] or match[2] or "" for match in _ITEM.finditer(text)]


def _key_and_value(line: str) -> tuple[str, str]:
    """A line of params as a pair: a key and its value, or a file and its digest."""
    if match := _LINE.fullmatch(line):
        return match[1], match[2]
    return line, ""


def _seconds(benchmark: Path | None) -> float | None:
    """Seconds of a job's last run; None if they are unknown."""
    if benchmark is None:
        return None
    try:
        header, *_, last = benchmark.read_text(encoding="utf-8").splitlines()
        return float(last.split("\t")[header.split("\t").index("s")])
    except (OSError, ValueError):
        return None


def due_job(fields: Mapping[str, Any], reason: str) -> DueJob:
    """A job from Snakemake's log.

    Args:
        fields: of a ``job_info`` event.
        reason: why it runs.
    """
    return DueJob(
        str(fields["rule_name"]),
        {str(name): str(value) for name, value in fields["wildcards"].items()},
        reason,
        Path(str(fields["benchmark"])) if fields["benchmark"] else None,
        _UNKNOWN_INPUT in map(str, fields["input"] or ()),
    )


def summary(jobs: Iterable[DueJob], max_lines: int | None = None) -> list[str]:
    """A line per stage that would run, with reasons and its last duration.

    Args:
        jobs: of a plan, in its order.
        max_lines: upper limit; None for a line per stage.
    """
    found = _stages(jobs)
    if not found:
        return ["nothing to be done"]
    lines = [stage.line() for stage in found]
    if max_lines is not None and len(lines) > max_lines:
        left = len(lines) - max_lines + 1
        lines = [*lines[: max_lines - 1], f"and {left} more stages; vrtspike why lists them all"]
    measured = [stage for stage in found if stage.cost is not None]
    if len(measured) > 2:
        whole = format_duration(sum(stage.cost or 0.0 for stage in measured))
        lines.append(f"together {whole} last time")
    return lines
