"""View of a plan: Snakemake's messages, and a summary at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from vrtspike.system.line_output import write_line
from vrtspike.workflow.plan_summary import summary

SUMMARY_ONLY = "VRTSPIKE_SUMMARY_ONLY"
"""Environment variable: show only the complete summary of a plan, on standard output."""

SUMMARY_LINES = 6
"""Maximum number of lines of the summary in a dry run."""

Show = Callable[[logging.LogRecord], None]
"""Function that shows a message as Snakemake does."""


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
        self._jobs: list[Mapping[str, Any]] = []
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
