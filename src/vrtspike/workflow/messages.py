"""Rewriting of Snakemake's messages, and messages at the end of a run."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from vrtspike.config.yaml_documents import read_yaml
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.system.errors import EXIT_USER_ERROR, ConfigError, UserError, did_you_mean
from vrtspike.system.line_output import write_line
from vrtspike.system.user_error_messages import memory_fault

T = TypeVar("T")

RULE_NAMES = "rule_names"
"""Attribute of a log record: names of all rules, for suggestions."""

RERUN_REASON = "rerun_reason"
"""Attribute of a log record: a file and the reason for making it again."""

_ADVICE = (
    "--configfile takes every word up to the next option as a file: write targets before it, or "
    "after --"
)
_NO_RULE = re.compile(r"No rule to produce (.+?) \(if you use input functions")
_KEPT = re.compile(r"Restored previous version of (.+?)(?: \(update\))? \(updating job failed\)")


class MessageRewriter:
    """Replacement of Snakemake's messages and reasons by more helpful ones.

    Snakemake says neither why a job is forced nor which rule names resemble a mistyped target. The
    Snakefile logs these facts with the attributes :data:`RERUN_REASON` and :data:`RULE_NAMES`.

    Args:
        arguments: arguments of Snakemake.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._rule_names: Sequence[str] = ()
        self._rerun_reasons: dict[str, str] = {}

    def rewrite(self, record: logging.LogRecord) -> bool:
        """Rewrite a message in place, if there is a better one.

        Returns:
            false if the message should not be shown: it only carries facts, or repeats another one.
        """
        fields = vars(record)
        if RULE_NAMES in fields:
            self._rule_names = fields[RULE_NAMES]
            return False
        if RERUN_REASON in fields:
            path, reason = fields[RERUN_REASON]
            self._rerun_reasons[path] = reason
            return False
        kept = _KEPT.match(str(record.msg))
        if kept is not None and record.levelno == logging.WARNING:
            path = Path(kept[1])
            record.msg = f"{path.parent}: the former result is kept"
            # Snakemake reports each kept file of a result; one message is enough.
            return path.name == WEIGHTS
        if fields.get("event") == "job_info":
            self._explain_job(fields)
        elif record.levelno >= logging.ERROR:
            exception = getattr(record, "exception", "")
            text = _explanation(str(record.msg), exception, self._arguments, self._rule_names)
            if text is not None:
                record.msg = f"error: {text}"
        return True

    def _explain_job(self, fields: dict[str, Any]) -> None:
        """Replace the reason of a forced job, of which Snakemake says only "forced"."""
        # Snakemake marks outputs that are kept while their job runs.
        outputs = [str(path).removesuffix(" (update)") for path in fields["output"] or ()]
        for path in outputs:
            if path in self._rerun_reasons:
                fields["reason"] = self._rerun_reasons[path]
                return


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


class _Guarded:
    """View of an object, see :meth:`ExitMessages.guarded`.

    Args:
        target: the object.
        user_errors: function that returns a context, which handles errors.
    """

    def __init__(
        self, target: object, user_errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._target = target
        self._user_errors = user_errors

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - an attribute of any class
        with self._user_errors():
            attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - of any method
            with self._user_errors():
                return attribute(*arguments, **keywords)

        return call


class ExitMessages:
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

    def guarded(self, target: T) -> T:
        """Return a view of an object whose methods end Snakemake as :meth:`user_errors` says.

        Rules call the package through such views, so that no rule has to catch errors.

        Returns:
            an object with the attributes of ``target``, whose type it has for type checkers.
        """
        return cast("T", _Guarded(target, self.user_errors))

    def _refuse(self, fault: str) -> NoReturn:
        """Print an error and end this process."""
        write_line(sys.stderr, f"error: {fault}")
        self.exit_status = 0
        raise SystemExit(EXIT_USER_ERROR) from None

    def _print_at_exit(self) -> None:
        """Print the messages; exit with :attr:`exit_status` (Snakemake's is 0 for any plan)."""
        # Snakemake 9.19 does not close the handlers of plugins, which print the plan's summary.
        logging.shutdown()
        for text in self._texts:
            write_line(sys.stderr, text)
        if self.exit_status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.exit_status)
