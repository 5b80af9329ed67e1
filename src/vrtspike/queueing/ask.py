"""Programs of a batch system, each with a time limit: what they say, or why they say nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

ANSWER_S = 30.0
"""Seconds for an answer; Slurm's own programs give up after about ten."""


@dataclass(frozen=True)
class Answer:
    """What a program said.

    Attributes:
        text: its output; None if it failed or took too long.
        fault: why there is no output, in a line.
        said: all that it wrote, output and errors, whatever its exit status.
    """

    text: str | None
    fault: str = ""
    said: str = field(default="", repr=False)


_OWN = ("SQUEUE_", "SACCT_", "SCANCEL_")
"""Settings of the user's own: they could leave jobs out, or want an answer."""


def ask(command: Sequence[str], limit_s: float = ANSWER_S) -> Answer:
    """Run a program that only tells something.

    Args:
        command: the program and its arguments.
        limit_s: seconds after which it is killed.

    >>> ask(["echo", "12|RUNNING"])
    Answer(text='12|RUNNING\\n', fault='')
    >>> ask(["sleep", "60"], limit_s=0.1)
    Answer(text=None, fault='sleep: no answer within 0.1 s')
    """
    try:
        done = subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, f"{command[0]}: no answer within {limit_s:g} s")
    except OSError as error:
        return Answer(None, f"{command[0]}: {error.strerror}")
    text = done.stdout + done.stderr
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        fault = said[-1].strip() if said else f"{command[0]}: ended with status {done.returncode}"
        return Answer(None, fault, text)
    return Answer(done.stdout, said=text)


def _environment() -> dict[str, str]:
    """An environment in which programs answer in English, whatever the user has set for himself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return {**kept, "LC_ALL": "C"}
