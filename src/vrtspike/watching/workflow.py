"""Where Snakemake meets a person: what its messages, lists and last lines become.

The workflow is Snakemake's object, which has no published types; what is touched of it stands here.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from vrtspike.cpus import available_cpus
from vrtspike.durations import format_duration
from vrtspike.watching.ending import continue_line, results_lines
from vrtspike.watching.handler import StageHandler
from vrtspike.watching.targets import listing, unknown_target

COMMAND = "VRTSPIKE_COMMAND"
"""Environment variable: what the user typed, where that was not Snakemake."""

_LOGGER = "snakemake.logging"
_DEFAULT_HANDLER = "DefaultStreamHandler"


class Watch:
    """What a person sees of a workflow that runs.

    A dry run, ``--verbose``, ``--printshellcmds`` and ``--debug-dag`` show Snakemake's own
    messages, and so does a ``--logger`` that writes to the terminal.

    Args:
        workflow: Snakemake's.
        loud: stages whose programs write to the terminal themselves.
        announced: stages that are told, with their logs, when a job of theirs begins.
        summary: a text that is shown at the end where it was asked for.
        pages: reports, the best first, of which the first that was asked for is named at the end.
    """

    def __init__(
        self,
        workflow: Any,  # noqa: ANN401 - Snakemake's
        loud: Collection[str],
        announced: Collection[str],
        summary: str,
        pages: Sequence[str],
    ) -> None:
        self._workflow = workflow
        self._summary, self._pages = summary, pages
        self._began = time.monotonic()
        self.handler: StageHandler | None = None
        if not workflow.is_main_process:
            return
        logger = logging.getLogger(_LOGGER)
        logger.addFilter(self._answer_unknown_target)
        settings = workflow.output_settings
        detailed = settings.verbose or settings.printshellcmds or settings.debug_dag
        default = next((each for each in logger.handlers if each.name == _DEFAULT_HANDLER), None)
        if settings.dryrun or detailed or not isinstance(default, logging.StreamHandler):
            return
        quiet = bool(settings.quiet)
        self.handler = StageHandler(default, default.stream, self._totals, loud, announced, quiet)
        self.handler.on_nothing_to_do = self._show_results
        logger.removeHandler(default)
        logger.addHandler(self.handler)

    def end(self, success: bool) -> None:
        """Say what a run came to, or how to go on."""
        duration = format_duration(time.monotonic() - self._began)
        if success:
            if self.handler is None or not self.handler.quiet:
                self._show_results(f"done in {duration}")
        elif self.handler is not None and self.handler.interrupted:
            self._say(continue_line(typed_command(sys.argv)))
        elif self.handler is not None and self.handler.failed:
            jobs = self.handler.failed
            self._say(
                f"stopped after {duration}: {len(jobs)} job{'s' * (len(jobs) > 1)} failed. What is "
                "done stays done: mend it, and give the same command again"
            )

    def _show_results(self, done: str = "") -> None:
        made = {str(file) for job in self._workflow.dag.jobs for file in job.output}
        for line in results_lines(made, self._summary, self._pages, done):
            self._say(line)

    def _say(self, text: str) -> None:
        if self.handler is not None:
            self.handler.say(text)
        else:
            print(text, file=sys.stderr)

    def _totals(self) -> Counter[str]:
        dag = self._workflow.dag
        return Counter(job.rule.name for job in chain(dag.needrun_jobs(), dag.finished_jobs))

    def _answer_unknown_target(self, record: logging.LogRecord) -> bool:
        if getattr(record, "exception", None) == "MissingRuleException":
            names = [rule.name for rule in self._workflow.rules if not rule.has_wildcards()]
            answer = unknown_target(str(record.msg), names)
            record.msg = record.msg if answer is None else f"error: {answer}"
        return True


def benchmarks_before(workflow: Any, rule: str) -> list[str]:  # noqa: ANN401 - Snakemake's
    """Benchmark files of all jobs that those of a rule depend on, at any distance, sorted."""
    dag = workflow.dag
    waiting = [job for job in dag.jobs if job.rule.name == rule]
    seen = set(waiting)
    while waiting:
        new = set(dag.dependencies[waiting.pop()]) - seen
        seen |= new
        waiting += new
    own = {job for job in seen if job.rule.name != rule}
    return sorted(str(job.benchmark) for job in own if job.benchmark)


def typed_command(arguments: Sequence[str]) -> list[str]:
    """What the user typed: Snakemake's arguments, or what stands in :data:`COMMAND`."""
    typed = os.environ.get(COMMAND)
    return typed.split() if typed else ["snakemake", *arguments[1:]]


def list_targets_first(
    workflow: Any,  # noqa: ANN401 - Snakemake's
    first: Sequence[str],
) -> None:
    """Have ``snakemake --list`` show targets before the rules behind them.

    Args:
        workflow: Snakemake's.
        first: targets that come first, in this order.
    """

    def list_rules(only_targets: bool = False) -> None:
        rules = [(rule.name, rule.docstring, rule.has_wildcards()) for rule in workflow.rules]
        shown = [rule for rule in rules if not (only_targets and rule[2])]
        print("\n".join(listing(shown, first)))

    workflow.list_rules = list_rules


def provide_cores(workflow: Any) -> None:  # noqa: ANN401 - Snakemake's
    """Take every core where neither ``--cores`` nor ``--jobs`` says how many.

    A profile cannot: its ``cores`` would also be the limit of a cluster's.
    """
    settings = workflow.resource_settings
    if workflow.is_main_process and settings.cores is None and settings.nodes is None:
        settings.cores = available_cpus()
        workflow.global_resources["_cores"] = settings.cores
