"""Snakemake's messages, read for a person: a line per stage, errors with the end of their log.

Everything that is left out here stands in ``.snakemake/log``, and the output of each job in the
log of its rule.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from vrtspike.progress_bar import PLAIN_INTERVAL
from vrtspike.watching.stages import Stages

LOG_LINES = 20
"""Lines of a failed job's log that are shown, where it ends with no error of ours."""

_CLEAR = "\r\x1b[K"
_NOTHING = "Nothing to be done"
_KEPT = (_NOTHING, "Trying to restart job")
"""Beginnings of messages that a person wants to read though they are no warnings."""
_KNOWN = ("Assuming unrestricted shared filesystem usage",)
"""What every run says before it begins."""
_FINAL = ("Exiting because a job execution failed", "At least one job did not complete")
"""What Snakemake says at the end of a run after it has named the jobs that failed."""
_INTERRUPTED = "Terminating processes on user request"
_STARTER = "torch/distributed/elastic/multiprocessing/api.py"
_GROWN = "Updating checkpoint dependencies"
_STATUS = re.compile(r"(?:non-zero exit status \d+|died with [^.]*)")


class StageHandler(logging.Handler):
    """Shows a line per stage instead of Snakemake's paragraph per job.

    Args:
        default: shows what is passed on as it is: warnings, errors, all before a run begins.
        stream: where lines go; a bar is drawn where it is a terminal.
        totals: asked for the number of jobs of each stage when it has changed.
        loud: stages whose programs write to the terminal themselves.
        announced: stages that are told, with their logs, when a job of theirs begins.
        quiet: whether only errors are shown.
        clock: seconds since any moment.
    """

    def __init__(
        self,
        default: logging.Handler,
        stream: TextIO,
        totals: Callable[[], Mapping[str, int]],
        loud: Collection[str] = (),
        announced: Collection[str] = (),
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._default, self._stream = default, stream
        self._totals, self.quiet, self._clock = totals, quiet, clock
        self._loud, self._announced = frozenset(loud), frozenset(announced)
        self._stages = Stages(clock)
        self._names: dict[int, str] = {}
        self._begun = False
        self._known_total = -1
        self._bar_is_drawn = False
        self._shown_at = clock()
        self._how = ""
        self.failed: list[str] = []
        self.interrupted = False
        self.on_nothing_to_do: Callable[[], None] = lambda: None
        self._events: dict[str | None, Callable[[logging.LogRecord], None]] = {
            "workflow_started": self._on_begin,
            "job_info": self._on_job,
            "job_finished": self._on_finished,
            "progress": self._on_progress,
            "job_error": self._on_failure,
            "error": self._on_error,
            "group_info": self._drop,
            "job_started": self._on_started,
            "resources_info": self._drop,
            "run_info": self._drop,
            "shellcmd": self._drop,
            None: self._on_text,
        }

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, or what it comes to; as it is where it is of another form than known."""
        event = getattr(record, "event", None)
        # A plain or an enumerated string, whichever Snakemake sends.
        show = self._events.get(None if event is None else str(event), self._pass_on)
        try:
            show(record)
        except Exception:  # it would end the thread that shows all that follows
            self._pass_on(record)

    def say(self, text: str) -> None:
        """Show a text."""
        self._clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._shown_at = self._clock()

    def _on_begin(self, record: logging.LogRecord) -> None:
        self._begun = True

    def _on_job(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        job, rule = int(fields["jobid"]), str(fields["rule_name"])
        self._names[job] = " ".join(
            [rule, "/".join(map(str, fields["wildcards"].values()))]
        ).strip()
        if not fields["output"]:
            return  # a target that only names others
        self._stages.start(job, rule)
        self._draw()
        if rule in self._announced and not self.quiet:
            logs = ", ".join(map(str, fields["log"]))
            self.say(f"{self._names[job]} begins; its log: {logs}")

    def _on_started(self, record: logging.LogRecord) -> None:
        """Jobs are about to begin; the plan may have grown."""
        if self._known_total < 0:
            self._stages.expect(self._totals())

    def _on_finished(self, record: logging.LogRecord) -> None:
        self._stages.finish(int(vars(record)["job_id"]))

    def _on_progress(self, record: logging.LogRecord) -> None:
        total = int(vars(record)["total"])
        # Counting takes as long as the plan is large: not after every one of thousands of jobs.
        if total != self._known_total:
            self._known_total = total
            self._stages.expect(self._totals())
        lines = self._stages.complete()
        if not self.quiet:
            for line in lines:
                self.say(line)
        self._draw()

    def _on_failure(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        job = int(fields["jobid"])
        self._stages.leave(job)
        name = self._names.get(job, str(fields["rule_name"]))
        if self.interrupted:
            return
        self.failed.append(name)
        how, self._how = f" ({self._how})" if self._how else "", ""
        self.say(f"error: {name} failed{how}; {log_end([str(path) for path in fields['log']])}")

    def _on_error(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        known = bool(self.failed) or self.interrupted
        if known and any(final in text for final in _FINAL):
            return
        status = _STATUS.search(text) if "CalledProcessError" in text else None
        if status is None:
            self._pass_on(record)
        else:  # told with the job, which is named next
            killed = status[0].endswith((" 137", "SIGKILL: 9>"))
            self._how = status[0] + ": killed, as when memory is full" * killed

    def _on_text(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        if text.startswith(_INTERRUPTED):
            self.interrupted = True
        elif text.startswith(_GROWN):
            self._known_total = -1
        elif record.levelno >= logging.WARNING:
            if not (any(final in text for final in _FINAL) and (self.failed or self.interrupted)):
                self._pass_on(record)
        elif text.startswith(_KEPT) or not (self._begun or text.startswith(_KNOWN)):
            self._pass_on(record)
            if text.startswith(_NOTHING):
                self.on_nothing_to_do()

    def _drop(self, record: logging.LogRecord) -> None:
        """Leave it to the log of the workflow."""

    def _pass_on(self, record: logging.LogRecord) -> None:
        if self._default.filter(record):
            self._clear()
            self._default.emit(record)

    def _draw(self) -> None:
        """A bar on a terminal, a line now and then elsewhere, for the stage at work."""
        running = self._stages.running
        # Programs that draw by themselves have the terminal's last lines.
        if self.quiet or not running or not self._loud.isdisjoint(running):
            self._clear()
        elif self._stream.isatty():
            self._stream.write(_CLEAR + self._stages.bar(running[-1]))
            self._stream.flush()
            self._bar_is_drawn = True
        elif self._clock() - self._shown_at >= PLAIN_INTERVAL:
            self.say(self._stages.line(running[-1]))

    def _clear(self) -> None:
        if self._bar_is_drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._bar_is_drawn = False


def log_end(logs: Sequence[str], lines: int = LOG_LINES) -> str:
    """Where the logs of a failed job are, and the end of the first that has any lines.

    The end begins with the last line that begins with ``error:``: all of what a program has to say
    to its user is shown.

    >>> log_end([])
    'it has no log'
    """
    for log in logs:
        path = Path(log)
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        # A bar that was redrawn leaves its states behind: the last one counts.
        found = [line.rsplit("\r", 1)[-1].rstrip() for line in text.rstrip().split("\n")]
        if any(found):
            starter = next((number for number, line in enumerate(found) if _STARTER in line), None)
            if starter is not None:
                # What torchrun has to add is long and names no cause; the launcher's word is last.
                found = [*found[:starter], found[-1]]
            errors = [number for number, line in enumerate(found) if line.startswith("error: ")]
            first = errors[-1] if errors else max(0, len(found) - lines)
            shown = "\n".join(f"    {line}" for line in found[first:])
            return f"the end of {log}:\n{shown}"
    return f"its log is empty: {', '.join(logs)}" if logs else "it has no log"
