"""Snakemake's messages, read for a person: a line per stage, errors with the end of their log.

Everything that is left out here stands in ``.snakemake/log``, and the output of each job in the
log of its rule.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from vrtspike.files import file_mark, full_disk
from vrtspike.progress_bar import PLAIN_INTERVAL
from vrtspike.watching.stages import Stages

LOG_LINES = 20
"""Lines of a failed job's log that are shown, where it ends with no error of ours."""

MESSAGE_LINES = 100
"""Of an error of ours: thousands of sequences may have the same fault."""

_CLEAR = "\r\x1b[K"
_NOTHING = "Nothing to be done"
_AGAIN = re.compile(r"Trying to restart job (\d+)\.")
_KNOWN = ("Assuming unrestricted shared filesystem usage",)
"""What every run says before it begins."""
_FINAL = ("Exiting because a job execution failed", "At least one job did not complete")
"""What Snakemake says at the end of a run after it has named the jobs that failed."""
_INTERRUPTED = ("Terminating processes on user request", "Will exit after finishing currently")
_ERROR = re.compile(r"error(?: \(process \d+\))?: ")
_SAVED = re.compile(r"saved at step \d+ of \d+; ")
"""What a training says that was stopped in time: more than its figures, which follow."""
_STARTER = "torch/distributed/elastic/multiprocessing/api.py"
_TOLD_BEFORE = re.compile(r"    (?:wildcards|resources): ")
_TOLD_AFTER = re.compile(r"Error in rule \w+:|Shutting down, this might take some time")
"""Where Snakemake's own words end and begin again in the log that Slurm keeps of a job."""
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
        self._logs: dict[int, dict[str, object]] = {}
        self._begun = False
        self._known_total = -1
        self._bar_is_drawn = False
        self._shown_at = clock()
        self._how = ""
        self.failed: list[str] = []
        self.interrupted = False
        self.on_nothing_to_do: Callable[[], None] = lambda: None
        self.on_progress: Callable[[], None] = lambda: None
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

    def tick(self) -> None:
        """Show how far the stages are; for a clock, because a long job sends no messages."""
        with self.lock or contextlib.nullcontext():
            if self._begun:
                self._draw()

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
        logs = list(map(str, fields["log"]))
        marks = ((log, file_mark(Path(log))) for log in logs)
        self._logs[job] = {log: mark for log, mark in marks if mark is not None}
        self._stages.start(job, rule, logs)
        self._draw()
        if rule in self._announced and not self.quiet:
            self.say(f"{self._names[job]} begins; its log: {', '.join(logs)}")

    def _on_started(self, record: logging.LogRecord) -> None:
        """Jobs are about to begin; the plan may have grown, and what is done is known by now."""
        self.on_progress()
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
        self.on_progress()
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
        # An executor for a cluster says why; of a program on this machine its status was told.
        told = fields.get("aux") or {}
        why = str(told.get("why") or self._how)
        how, self._how = f" ({why})" if why else "", ""
        before, logs = self._logs.get(job, {}), [str(path) for path in fields["log"]]
        # What an earlier job has left is no word of this one.
        own = [log for log in logs if log not in before or file_mark(Path(log)) != before[log]]
        end = log_end(own) if own or not logs else "it has written no log"
        self.say(f"error: {name} failed{how}; {end}")

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
        elif again := _AGAIN.match(text):
            self._on_restart(int(again[1]))
        elif text.startswith(_NOTHING) or not (self._begun or text.startswith(_KNOWN)):
            self._pass_on(record)
            if text.startswith(_NOTHING):
                self.on_nothing_to_do()

    def _on_restart(self, job: int) -> None:
        name = self._names.get(job, f"job {job}")
        if name in self.failed:
            self.failed.remove(name)
        if not self.quiet:
            self.say(f"{name} is tried again")

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
            within, of = self._stages.within(running[-1])
            self.say(self._stages.line(running[-1]) + (f"  {within} of {of}" if of else ""))

    def _clear(self) -> None:
        if self._bar_is_drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._bar_is_drawn = False


def log_end(logs: Sequence[str], lines: int = LOG_LINES) -> str:
    """Where the logs of a failed job are, and the end of the first that has any lines.

    The end begins with the last line that begins with ``error:``: what a program has to say to its
    user is shown, of a list of hundreds its beginning and what to do. Of a training that was
    stopped and saved that is the one line.

    >>> log_end([])
    'it has no log'
    """
    for log in logs:
        path = Path(log)
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        # A bar that was redrawn leaves its states behind: the last one counts.
        found = [line.rsplit("\r", 1)[-1].rstrip() for line in text.rstrip().split("\n")]
        if any(found):
            found = _without_scheduler(found)
            starter = next((number for number, line in enumerate(found) if _STARTER in line), None)
            if starter is not None:
                # What torchrun has to add is long and names no cause; the launcher's word is last.
                found = [*found[:starter], found[-1]]
            errors = [number for number, line in enumerate(found) if _ERROR.match(line)]
            saved = [line for line in found if _SAVED.search(line)]
            if saved and not errors:
                return f"{saved[-1]} ({log})"
            first = errors[-1] if errors else max(0, len(found) - lines)
            shown = _without_middle(found[first:], log)
            return "\n".join([f"the end of {log}:", *(f"    {line}" for line in shown)])
    if not logs:
        return "it has no log"
    full = next((log for log in logs if full_disk(Path(log).parent)), None)
    if full is not None:
        return f"{full}: the disk is full; free space, and run again"
    return f"its log is empty: {', '.join(logs)}"


def _without_middle(lines: list[str], log: str) -> list[str]:
    """Lines of a message; of very many the first ones and the last, which says what to do."""
    left = len(lines) - MESSAGE_LINES
    if left <= 0:
        return lines
    beginning = lines[: MESSAGE_LINES - 1]
    return [*beginning, f"  ... and {left} lines more, in {log}", lines[-1]]


def _without_scheduler(lines: list[str]) -> list[str]:
    """The lines of a job's own programs, and Slurm's, in a log that Snakemake writes to as well."""
    begins = [number for number, line in enumerate(lines) if _TOLD_BEFORE.match(line)]
    own = lines[begins[-1] + 1 :] if begins else lines
    end = next((number for number, line in enumerate(own) if _TOLD_AFTER.match(line)), len(own))
    if 0 < end < len(own) and own[end - 1].startswith("["):
        end -= 1  # the date above an error
    return own[:end] if any(own[:end]) else lines
