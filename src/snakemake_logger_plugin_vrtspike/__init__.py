"""A plain message where Snakemake answers a wrong ``--configfile`` with a traceback.

Snakemake opens these files before it reads a Snakefile, where nothing of a workflow can help yet.
It imports every package whose name begins as this one does when it starts, whichever handler is
chosen; so the package puts a filter on its log, and that is all it does.
"""

from __future__ import annotations

import logging
import re

from snakemake_interface_logger_plugins.base import LogHandlerBase

SNAKEMAKE = "snakemake.logging"
_READER = "load_configfile"
"""Function of Snakemake that reads such a file; it stands in the traceback."""
_CAUSE = re.compile(r"^\w+: \[Errno \d+\] (?P<reason>.*): '(?P<file>.*)'$", re.MULTILINE)
_ADVICE = (
    "--configfile takes every word up to the next option as a file: write targets before it, or "
    "after --"
)


class PlainConfigfileErrors(logging.Filter):
    """Turns the traceback of a configuration file that cannot be opened into a sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change such a record; let every record pass."""
        text = str(record.msg)
        cause = _CAUSE.search(text)
        if cause is not None and _READER in text and record.levelno >= logging.ERROR:
            record.msg = f"error: {cause['file']}: {cause['reason'].lower()}\n{_ADVICE}"
        return True


class LogHandler(LogHandlerBase):
    """What Snakemake asks every such package for; it adds nothing to the log."""

    @property
    def writes_to_stream(self) -> bool:
        """No."""
        return False

    @property
    def writes_to_file(self) -> bool:
        """No."""
        return False

    @property
    def has_filter(self) -> bool:
        """Yes: nothing comes here that another filter would take out."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Yes: nothing is formatted."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Leave the record to the other handlers."""


logging.getLogger(SNAKEMAKE).addFilter(PlainConfigfileErrors())
