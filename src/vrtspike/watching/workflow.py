"""Where Snakemake meets a person: what its messages, lists and last lines become.

The workflow is Snakemake's object, which has no published types; what is touched of it stands here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from vrtspike.cpus import available_cpus
from vrtspike.durations import format_duration
from vrtspike.endings import end_in_order
from vrtspike.errors import EXIT_USER_ERROR, is_disk_full
from vrtspike.graphs import all_before
from vrtspike.watching.ending import continue_line, results_lines, unwritable
from vrtspike.watching.handler import StageHandler
from vrtspike.watching.targets import listing, unknown_target
from vrtspike.watching.turns import Turns

COMMAND = "VRTSPIKE_COMMAND"
"""Environment variable: what the user typed, where that was not Snakemake."""

_TICK_S = 1.0
"""How often a bar is drawn while no message comes."""
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
        summaries: texts that are shown at the end where they were asked for.
        pages: reports, the best first, of which the first that was asked for is named at the end.
        turns: folder in which all Snakemakes with the same results tell of each other.
    """

    def __init__(
        self,
        workflow: Any,  # noqa: ANN401 - Snakemake's
        loud: Collection[str],
        announced: Collection[str],
        summaries: Sequence[str],
        pages: Sequence[str],
        turns: Path,
    ) -> None:
        self._workflow = workflow
        self._summaries, self._pages = summaries, pages
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._turns = Turns(turns)
        self.handler: StageHandler | None = None
        if not workflow.is_main_process:
            return
        logger = logging.getLogger(_LOGGER)
        logger.addFilter(self._answer_errors)
        settings = workflow.output_settings
        detailed = settings.verbose or settings.printshellcmds or settings.debug_dag
        default = next((each for each in logger.handlers if each.name == _DEFAULT_HANDLER), None)
        if settings.dryrun or detailed or not isinstance(default, logging.StreamHandler):
            return
        quiet = bool(settings.quiet)
        self.handler = StageHandler(default, default.stream, self._totals, loud, announced, quiet)
        self.handler.on_nothing_to_do = self._show_results
        self.handler.on_progress = self._tell_others
        logger.removeHandler(default)
        logger.addHandler(self.handler)
        threading.Thread(target=self._tick, args=(self.handler,), daemon=True).start()

    def _tick(self, handler: StageHandler) -> None:
        while not self._ended.wait(_TICK_S):
            handler.tick()

    def begin(self) -> None:
        """Before the first job: wait where another Snakemake makes the same files; plan anew."""
        # Snakemake would only note a request to end, for its scheduler, which is not at work yet.
        previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        end_in_order()
        try:
            waited = self._turns.take(self._due(), self._say)
        except OSError as error:
            if not is_disk_full(error):
                self._say(f"error: {unwritable(str(error.filename), error.strerror)}")
                raise SystemExit(EXIT_USER_ERROR) from error
            waited = False  # the job that cannot write tells it
        if waited:
            sys.stdout.flush()
            os.execv(sys.executable, sys.orig_argv)
        for number, handler in previous.items():
            signal.signal(number, handler)

    def _due(self) -> list[str]:
        """Files that are still to be made."""
        return [str(file) for job in self._workflow.dag.needrun_jobs() for file in job.output]

    def _tell_others(self) -> None:
        # The plan may grow in another thread just now; then the next job tells.
        with contextlib.suppress(RuntimeError):
            self._turns.tell(self._due())

    def end(self, success: bool) -> None:
        """Say what a run came to, or how to go on."""
        self._ended.set()
        self._turns.end()
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
        for line in results_lines(made, self._summaries, self._pages, done):
            self._say(line)

    def _say(self, text: str) -> None:
        if self.handler is not None:
            self.handler.say(text)
        else:
            print(text, file=sys.stderr)

    def _totals(self) -> Counter[str]:
        dag = self._workflow.dag
        return Counter(job.rule.name for job in chain(dag.needrun_jobs(), dag.finished_jobs))

    def _answer_errors(self, record: logging.LogRecord) -> bool:
        """Say what a user can do about errors that end Snakemake before the first job."""
        if getattr(record, "exception", None) == "ProtectedOutputException":
            record.msg = f"error: {unwritable(str(record.msg).split()[-1])}"
        elif getattr(record, "exception", None) == "MissingRuleException":
            names = [rule.name for rule in self._workflow.rules if not rule.has_wildcards()]
            answer = unknown_target(str(record.msg), names)
            record.msg = record.msg if answer is None else f"error: {answer}"
        return True


def benchmarks_before(workflow: Any, rule: str) -> list[str]:  # noqa: ANN401 - Snakemake's
    """Benchmark files of all jobs that those of a rule depend on, at any distance, sorted."""
    dag = workflow.dag
    before = all_before(dag.dependencies, [job for job in dag.jobs if job.rule.name == rule])
    own = (job for job in before if job.rule.name != rule)
    return sorted(str(job.benchmark) for job in own if job.benchmark)


def typed_command(arguments: Sequence[str]) -> list[str]:
    """What the user typed: Snakemake's arguments, or what stands in :data:`COMMAND`."""
    typed = os.environ.get(COMMAND)
    return typed.split() if typed else ["snakemake", *arguments[1:]]


def tell_reasons(reasons: Mapping[str, str]) -> None:
    """Have messages about jobs say why they run where they are not only asked for.

    Args:
        reasons: by a file that a job makes; more may come while the workflow is planned.
    """

    def tell(record: logging.LogRecord) -> bool:
        known = (reasons.get(str(path)) for path in getattr(record, "output", None) or ())
        if own := next(filter(None, known), None):
            record.reason = own
        return True

    # Before those that read the reason.
    logging.getLogger(_LOGGER).filters.insert(0, tell)


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
