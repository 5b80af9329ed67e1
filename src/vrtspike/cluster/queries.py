"""Queries of batch systems: commands with a timeout, a clean environment and an error message."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

QUERY_S = 30.0
"""Timeout of a query; Slurm's own programs give up after about 10 s."""

_USER_VARIABLES = ("SQUEUE_", "SACCT_", "SCANCEL_")
"""Prefixes of environment variables by which users configure Slurm's commands; they could filter
jobs or request a confirmation."""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command.

    Attributes:
        text: standard output; None if the command failed or timed out.
        fault: error message in one line; empty if the command succeeded.
        output: standard output and standard error, whatever the exit status.
    """

    text: str | None
    fault: str = ""
    output: str = field(default="", repr=False)


def query(command: Sequence[str], limit_s: float = QUERY_S) -> CommandResult:
    """Run a command of a batch system and return its output.

    Args:
        command: the program and its arguments.
        limit_s: seconds after which the command is killed.

    >>> query(["echo", "12|RUNNING"])
    CommandResult(text='12|RUNNING\\n', fault='')
    >>> query(["sleep", "60"], limit_s=0.1)
    CommandResult(text=None, fault='sleep: no answer within 0.1 s')
    """
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(_USER_VARIABLES)
    }
    variables["LC_ALL"] = "C"  # messages in English
    try:
        completed = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            # Ctrl-C must not end scancel, which needs its time.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return CommandResult(None, f"{command[0]}: no answer within {limit_s:g} s")
    except OSError as error:
        return CommandResult(None, f"{command[0]}: {error.strerror}")
    output = completed.stdout + completed.stderr
    if completed.returncode == 0:
        return CommandResult(completed.stdout, output=output)
    last = completed.stderr.strip().rpartition("\n")[2].strip()
    fault = last or f"{command[0]}: ended with status {completed.returncode}"
    return CommandResult(None, fault, output)
