"""How far the stages of a workflow are: jobs and seconds, a line per stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from vrtspike.durations import format_duration
from vrtspike.watching.steps import steps

_NAME_CELLS = 22
_COUNT_CELLS = 11
_BAR_CELLS = 24


@dataclass
class Stage:
    """The jobs of one rule.

    Attributes:
        running: the jobs at work by their numbers, each with its logs.
        done: jobs that are finished.
        total: jobs known so far; more may turn up while a workflow runs.
        seconds: in which at least one job was at work, until ``since``.
        since: when the first of the running jobs began.
        told: finished jobs when the stage's line was last shown.
    """

    running: dict[int, tuple[str, ...]] = field(default_factory=dict)
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    since: float = 0.0
    told: int = 0


class Stages:
    """Counts the jobs of a workflow by stage.

    Args:
        clock: seconds since any moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stages: dict[str, Stage] = {}
        self._rules: dict[int, str] = {}

    def start(self, job: int, rule: str, logs: Iterable[str] = ()) -> None:
        """A job begins; one that is tried again may begin several times."""
        stage = self._stages.setdefault(rule, Stage())
        self._rules[job] = rule
        if not stage.running:
            stage.since = self._clock()
        stage.running[job] = tuple(logs)

    def finish(self, job: int) -> str | None:
        """A job is finished; returns its stage, None where the job was never started here."""
        rule = self.leave(job)
        if rule is not None:
            self._stages[rule].done += 1
        return rule

    def leave(self, job: int) -> str | None:
        """A job is at work no longer, finished or not; returns its stage."""
        rule = self._rules.get(job)
        if rule is None or job not in self._stages[rule].running:
            return None
        stage = self._stages[rule]
        del stage.running[job]
        if not stage.running:
            stage.seconds += self._clock() - stage.since
        return rule

    def expect(self, totals: Mapping[str, int]) -> None:
        """Take in how many jobs each stage has, those that are finished included."""
        for rule, total in totals.items():
            self._stages.setdefault(rule, Stage()).total = total

    @property
    def running(self) -> list[str]:
        """The stages with jobs at work, in the order in which they began."""
        return [rule for rule, stage in self._stages.items() if stage.running]

    def complete(self) -> list[str]:
        """Lines of the stages all of whose jobs are finished, each once for so many jobs."""
        lines = []
        for rule, stage in self._stages.items():
            if stage.done > stage.told and stage.done >= stage.total and not stage.running:
                stage.told = stage.done
                lines.append(self.line(rule))
        return lines

    def line(self, rule: str) -> str:
        """Name, jobs and time of a stage."""
        stage = self._stages[rule]
        count = f"{stage.done}/{max(stage.total, stage.done)}"
        return f"{rule:<{_NAME_CELLS}}{count:>{_COUNT_CELLS}}{self._time(stage):>12}"

    def bar(self, rule: str) -> str:
        """The same of a stage at work, with a bar instead of columns."""
        stage = self._stages[rule]
        total = max(stage.total, stage.done + len(stage.running))
        within, of = self.within(rule)
        share = len(stage.running) * within / of if of else 0
        filled = int(_BAR_CELLS * (stage.done + share) / total) if total else 0
        bar = "━" * filled + "╌" * (_BAR_CELLS - filled)
        text = f"{rule:<{_NAME_CELLS}}{bar} {stage.done}/{total}  {self._time(stage)}"
        return f"{text}  {within} of {of}" if of else text

    def within(self, rule: str) -> tuple[int, int]:
        """Things done and all of them, within the jobs at work of a stage that tell."""
        return steps(log for logs in self._stages[rule].running.values() for log in logs)

    def _time(self, stage: Stage) -> str:
        seconds = stage.seconds
        if stage.running:
            seconds += self._clock() - stage.since
        return f"{seconds:.1f} s" if seconds < 60 else format_duration(seconds)
