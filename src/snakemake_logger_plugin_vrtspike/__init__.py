"""Display of this project's plans and runs: ``--logger vrtspike``, as in its profiles.

``--verbose``, ``--quiet``, ``--printshellcmds`` and ``--debug-dag`` show Snakemake's own messages.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import NoReturn

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

from vrtspike.system.errors import EXIT_USER_ERROR
from vrtspike.system.line_output import write_line
from vrtspike.system.termination import write_from_signal_handler
from vrtspike.system.user_environment import environment_faults
from vrtspike.workflow.messages import MessageRewriter, config_fault
from vrtspike.workflow.plan_view import SUMMARY_LINES, SUMMARY_ONLY_VARIABLE, PlanView
from vrtspike.workflow.run_view import RunView

__all__ = ["LogHandler", "LogHandlerSettings"]


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """No options; made before Snakemake reads ``--config``, whose faults it shows as tracebacks."""

    def __post_init__(self) -> None:
        """Reject what Snakemake cannot read."""
        if fault := config_fault(sys.argv[1:]):
            print(f"error: {fault}", file=sys.stderr)
            raise SystemExit(EXIT_USER_ERROR)


class LogHandler(LogHandlerBase):
    """Snakemake's handler, for a person."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True  # with `--quiet` errors are shown nevertheless
    has_formatter = False  # what is passed on looks as Snakemake writes it
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Choose what is shown."""
        if faults := list(environment_faults()):
            print("\n".join(f"error: {fault}" for fault in faults), file=sys.stderr)
            raise SystemExit(EXIT_USER_ERROR)  # later Snakemake would end with a traceback
        settings = self.common_settings
        self._rewriter = MessageRewriter(sys.argv[1:])
        self._view: PlanView | RunView | None = None
        if os.environ.get(SUMMARY_ONLY_VARIABLE):
            self._view = PlanView(self._show, sys.stdout, None)
        elif settings.dryrun:
            self._view = PlanView(self._show, sys.stderr, SUMMARY_LINES)
        elif not any(
            (settings.verbose, settings.quiet, settings.printshellcmds, settings.debug_dag)
        ):
            self._view = RunView(self._show, sys.stderr)
        if threading.current_thread() is threading.main_thread() and not settings.verbose:
            signal.signal(signal.SIGINT, _leave)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message."""
        try:
            if self._rewriter.rewrite(record):
                show = self._show if self._view is None else self._view.show
                show(record)
        except Exception:  # an exception would end the logging thread
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        """Show a message as Snakemake does."""
        event, settings = getattr(record, "event", None), self.common_settings
        if event == "shellcmd" and not settings.printshellcmds:
            return
        if event == "debug_dag" and not settings.debug_dag:
            return
        if not settings.quiet or record.levelno >= logging.WARNING:
            write_line(sys.stderr, self.format(record))

    def close(self) -> None:
        """Say what a plan or a run came to."""
        if self._view is not None:
            self._view.end()
            self._view = None
        super().close()


def _leave(signum: int, frame: object) -> NoReturn:
    """Before a run begins there is nothing to end in order."""
    write_from_signal_handler("stopped before anything was run")
    os._exit(128 + signal.SIGINT)  # as in a shell
