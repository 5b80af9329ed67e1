"""Why stages are stale: Snakemake's reasons, shortened, with what the stage cost last time."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vrtspike.durations import format_duration
from vrtspike.errors import RunError

SNAKEFILE = Path("workflow/Snakefile")

_SHOWN = 3
_UPDATED = "Input files updated by another job"
_OPEN = "decided when the data are made again"
_UNKNOWN = "<TBD>"
"""How Snakemake writes an input that a checkpoint decides."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CODE = re.compile(r"(\S+\.py) [0-9a-f]{12}")
_PARAMS = re.compile(r"before: (?P<before>.*?) now: (?P<now>.*)", re.DOTALL)
_ITEM = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_REASONS = {
    "Forced execution": "asked for",
    "Missing output files": "no result yet",
    "Incomplete output files": "interrupted",
    "Updated input files": "what it reads is newer",
    _UPDATED: "what it reads is made again",
    "Set of input files has changed": "it reads other files than before",
    "Code has changed": "its rule was edited",
    "Software environment": "its environment was changed",
}


@dataclass(frozen=True)
class StaleJob:
    """A job that would run.

    Attributes:
        rule: its rule.
        wildcards: what it is about.
        reason: in Snakemake's words.
        benchmark: file with the seconds of its last run; None if the rule has none.
        waits: whether its inputs are known only when a checkpoint has run.
    """

    rule: str
    wildcards: dict[str, str]
    reason: str
    benchmark: Path | None
    waits: bool = False


@dataclass
class Stage:
    """The jobs of a rule that are about one preset or data set."""

    title: str
    jobs: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0
    measured: int = 0

    def line(self) -> str:
        """The stage in one line: jobs, reasons, cost."""
        reasons = list(self.reasons)
        shown = ", ".join(reasons[:_SHOWN])
        if len(reasons) > _SHOWN:
            shown += f", and {len(reasons) - _SHOWN} more"
        jobs = f" ({self.jobs} jobs)" if self.jobs > 1 else ""
        if self.cost is None:
            return f"{self.title}{jobs}: {shown}"
        return f"{self.title}{jobs}: {shown}; took {format_duration(self.cost)} last time"

    @property
    def cost(self) -> float | None:
        """Seconds of its jobs last time; those that never ran cost what the others did."""
        return self.seconds * self.jobs / self.measured if self.measured else None


def stale_jobs(arguments: Sequence[str]) -> list[StaleJob]:
    """What Snakemake would run; nothing is run.

    Args:
        arguments: targets and options, as for ``snakemake``.

    Raises:
        RunError: if this is not the project's folder, or there is no plan; Snakemake has said why.
    """
    if not SNAKEFILE.is_file():
        raise RunError(f"{Path.cwd()}: no {SNAKEFILE} here; go to the project's folder first")
    # Imported here: the other commands do without Snakemake, which takes a second.
    from snakemake.cli import main
    from snakemake.logging import logger

    listener = _Listener()
    # Handlers are replaced when Snakemake begins, filters stay.
    logger.addFilter(listener)
    try:
        main(["--dry-run", *arguments])
    except SystemExit as end:
        if end.code:
            raise RunError("Snakemake has no plan; what it says above tells why") from None
    finally:
        logger.removeFilter(listener)
    return listener.jobs


def stages(jobs: Iterable[StaleJob]) -> list[Stage]:
    """Jobs of one rule about one preset or data set as one stage, in their order."""
    found: dict[str, Stage] = {}
    for job in jobs:
        subject = job.wildcards.get("preset") or job.wildcards.get("dataset")
        title = f"{job.rule} {subject}" if subject else job.rule
        stage = found.setdefault(title, Stage(title))
        stage.jobs += 1
        reasons = [_OPEN] if _is_undecided(job) else short_reasons(job.reason)
        stage.reasons |= dict.fromkeys(reasons)
        seconds = _seconds(job.benchmark)
        if seconds is not None:
            stage.seconds += seconds
            stage.measured += 1
    return list(found.values())


def _is_undecided(job: StaleJob) -> bool:
    """Whether a job is due only for jobs before it, and decided about anew after a checkpoint.

    Snakemake plans it, and drops it if what was made again is what it was.
    """
    return job.waits and [part.partition(":")[0] for part in job.reason.split("; ")] == [_UPDATED]


def short_reasons(reason: str) -> list[str]:
    """Snakemake's reason for a job in a few words each.

    >>> short_reasons("Missing output files: results/a.json; Updated input files: b.json")
    ['no result yet', 'what it reads is newer']
    """
    found: list[str] = []
    for part in reason.split("; "):
        if part.startswith("Params have changed"):
            found += _changed_params(part)
            continue
        known = [short for long, short in _REASONS.items() if part.startswith(long)]
        found += known or [part]
    return found


def _changed_params(text: str) -> list[str]:
    match = _PARAMS.search(text)
    if match is None:
        return ["its parameters changed"]
    before, now = (_items(match[name]) for name in ("before", "now"))
    found = []
    for line in [*now, *(line for line in before if _name(line) not in map(_name, now))]:
        if code := _CODE.fullmatch(line):
            found.append(f"code of {code[1]}")
        elif _DIGEST.fullmatch(line):
            found.append("raw files changed")
        elif ": " in line:
            key, _, value = line.partition(": ")
            old = [other.partition(": ")[2] for other in before if _name(other) == key]
            found.append(f"{key} {old[0]} -> {value}" if old and line in now else f"{key} {value}")
        else:
            found.append(line)
    return list(dict.fromkeys(found)) or ["its parameters changed"]


def _items(text: str) -> list[str]:
    return [match[1] or match[2] or "" for match in _ITEM.finditer(text)]


def _name(line: str) -> str:
    """What a line is about: its key, its file, or, of a digest alone, nothing."""
    if _DIGEST.fullmatch(line):
        return ""
    return line.partition(": ")[0] if ": " in line else line.partition(" ")[0]


def _seconds(benchmark: Path | None) -> float | None:
    """Seconds of a job's last run, if it has left them."""
    if benchmark is None:
        return None
    try:
        header, *_, last = benchmark.read_text(encoding="utf-8").splitlines()
        return float(last.split("\t")[header.split("\t").index("s")])
    except (OSError, ValueError):
        return None


class _Listener(logging.Filter):
    """Takes jobs out of Snakemake's log; of the rest only warnings and errors go on."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[StaleJob] = []

    def filter(self, record: logging.LogRecord) -> bool:
        from snakemake_interface_logger_plugins.common import LogEvent

        if getattr(record, "event", None) == LogEvent.JOB_INFO and record.output:  # type: ignore[attr-defined]
            self._note(record.__dict__)
        return record.levelno >= logging.WARNING

    def _note(self, job: dict[str, object]) -> None:
        wildcards, benchmark, inputs = job["wildcards"], job["benchmark"], job["input"]
        assert isinstance(wildcards, dict)
        assert isinstance(inputs, list)
        self.jobs.append(
            StaleJob(
                str(job["rule_name"]),
                {str(name): str(value) for name, value in wildcards.items()},
                str(job["reason"]),
                Path(str(benchmark)) if benchmark else None,
                _UNKNOWN in map(str, inputs),
            )
        )


def print_stages(arguments: Sequence[str]) -> None:
    """Print a line per stage that would run, why, and what it cost, or that nothing would."""
    found = stages(stale_jobs(arguments))
    for stage in found:
        print(stage.line())
    measured = [stage for stage in found if stage.cost is not None]
    if len(measured) > 2:
        whole = format_duration(sum(stage.cost or 0.0 for stage in measured))
        never = len(found) - len(measured)
        but = f", without {never} that never ran" if never else ""
        print(f"together {whole} last time{but}")
    if not found:
        print("nothing to be done")
    sys.stdout.flush()
