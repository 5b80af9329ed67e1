"""Rewriting of Snakemake's messages, and notices at the end of a run."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from vrtspike.config.documents import read_yaml
from vrtspike.runs.names import WEIGHTS
from vrtspike.system.cli import memory_fault
from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError, UserError
from vrtspike.system.suggestions import did_you_mean

_FACTS = "plan_facts"
"""Attribute of a message that holds its :class:`PlanFacts`."""

_ADVICE = (
    "--configfile takes every word up to the next option as a file: write targets before it, or "
    "after --"
)
_NO_RULE = re.compile(r"No rule to produce (.+?) \(if you use input functions")
_KEPT = re.compile(r"Restored previous version of (.+?)(?: \(update\))? \(updating job failed\)")


class PlanFacts(logging.Filter):
    """Facts that Snakemake's messages lack.

    The object is a filter of Snakemake's logger and attaches itself to every message: the
    Snakefile, which has the facts, and the handler, which shows the messages, have no other object
    in common.

    Args:
        rule_names: function that returns the names of all rules.
    """

    def __init__(self, rule_names: Callable[[], Sequence[str]] = tuple) -> None:
        super().__init__()
        self._rule_names = rule_names
        self.rerun_reasons: dict[str, str] = {}
        """Reasons for making files again, by path; Snakemake's message is only "forced"."""

    @property
    def rule_names(self) -> Sequence[str]:
        """Names of all rules, for suggestions."""
        return self._rule_names()

    def filter(self, record: logging.LogRecord) -> bool:
        """Attach the facts to a message, and let it pass."""
        vars(record)[_FACTS] = self
        return True


def is_superseded(record: logging.LogRecord) -> bool:
    """Return whether a message repeats another one.

    Snakemake reports each kept file of a result; the message about the weights suffices.
    """
    kept = _kept_file(record)
    return kept is not None and kept.name != WEIGHTS


def _kept_file(record: logging.LogRecord) -> Path | None:
    """Return the file that Snakemake reports as kept after a failure; None for other messages."""
    if record.levelno != logging.WARNING:
        return None
    match = _KEPT.match(str(record.msg))
    return None if match is None else Path(match[1])


def rewrite(record: logging.LogRecord, arguments: Sequence[str]) -> None:
    """Replace a message or a reason of Snakemake by a more helpful one, if there is one.

    Args:
        record: record of a message; changed in place; its :class:`PlanFacts` are used if it has
            any.
        arguments: arguments of Snakemake.
    """
    facts = getattr(record, _FACTS, PlanFacts())
    kept = _kept_file(record)
    if getattr(record, "event", None) == "job_info":
        # Snakemake marks outputs that are kept while their job runs.
        outputs = [str(path).removesuffix(" (update)") for path in vars(record)["output"] or ()]
        reasons = [facts.rerun_reasons.get(path) for path in outputs]
        vars(record)["reason"] = next(filter(None, reasons), vars(record)["reason"])
    elif kept is not None:
        record.msg = f"{kept.parent}: the former result is kept"
    elif record.levelno >= logging.ERROR:
        exception = getattr(record, "exception", "")
        explanation = _explanation(str(record.msg), exception, arguments, facts.rule_names)
        if explanation is not None:
            record.msg = f"error: {explanation}"


def _explanation(
    text: str, exception: str, arguments: Sequence[str], rule_names: Sequence[str]
) -> str | None:
    """Explain an error of Snakemake; None for errors that need no explanation."""
    no_rule = _NO_RULE.search(text)
    if exception == "MissingRuleException" and no_rule is not None:
        target = no_rule[1]
        suggestion = did_you_mean(target, rule_names)
        return (
            f"no target and no file of this workflow: {target}{suggestion}\n"
            "snakemake --list-target-rules lists all targets"
        )
    if exception == "ProtectedOutputException":
        return (
            f"{text.split()[-1]}: cannot be written; fix its permissions, or set RESULTS "
            "(config/config.yaml) to a folder that can be written, and run again"
        )
    if "load_configfile" in text or "Config file is not valid" in text:
        return configfile_fault(arguments)
    return None


def configfile_fault(arguments: Sequence[str]) -> str | None:
    """Return an error message on the first unreadable file of ``--configfile``, if any.

    Args:
        arguments: arguments of Snakemake.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[])
    options, _ = parser.parse_known_args(arguments)
    for path in options.configfile:
        try:
            read_yaml(path)
        except ConfigError as error:
            return f"{error}\n{_ADVICE}"
    return None


def config_fault(arguments: Sequence[str]) -> str | None:
    """Return an error message on a dotted key of ``--config``; None without one.

    Snakemake ends with a traceback at such a key.

    Args:
        arguments: arguments of Snakemake.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", action="extend", default=[])
    options, _ = parser.parse_known_args(arguments)
    for entry in options.config:
        key, equals, value = entry.partition("=")
        section, dot, rest = key.partition(".")
        if equals and dot:
            opened = rest.replace(".", ": {")
            closed = "}" * (rest.count(".") + 1)
            nested = shlex.quote(f"{section}={{{opened}: {value}{closed}")
            return (
                f"--config {entry}: keys with dots belong into SET: write --config "
                f"{shlex.quote(f'SET={entry}')} for all presets, or --config {nested} for a "
                "section of config/config.yaml"
            )
    return None


class Notices:
    """Messages for standard error at the end of this process, each once."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self.exit_status = 0
        atexit.register(self._print_at_exit)

    def add(self, *texts: str) -> None:
        """Add messages."""
        self._texts |= dict.fromkeys(texts)

    @contextlib.contextmanager
    def user_errors(self) -> Iterator[None]:
        """End Snakemake at a UserError, or a limit of memory, with a message and exit status 2."""
        try:
            yield
        except UserError as error:
            self._texts = {text: None for text in self._texts if str(error) not in text}
            self._refuse(str(error))
        except (MemoryError, ImportError) as error:
            fault = memory_fault(error)
            if fault is None:
                raise
            self._refuse(fault)

    def _refuse(self, fault: str) -> NoReturn:
        """Print an error and end this process."""
        print(f"error: {fault}", file=sys.stderr)
        self.exit_status = 0
        raise SystemExit(EXIT_USER_ERROR) from None

    def _print_at_exit(self) -> None:
        """Print the notices; exit with :attr:`exit_status` (Snakemake's is 0 for any plan)."""
        # Snakemake 9.19 does not close the handlers of plugins, which print the plan's summary.
        logging.shutdown()
        for text in self._texts:
            print(text, file=sys.stderr)
        if self.exit_status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.exit_status)
