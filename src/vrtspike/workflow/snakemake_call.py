"""Calls of Snakemake from other programs: the command, and a run whose progress is shown."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence

from vrtspike.system.errors import RunError, install_advice
from vrtspike.system.home import SNAKEFILE, require_home
from vrtspike.system.processes import stop_with_parent
from vrtspike.system.progress_bar import progress_bar
from vrtspike.workflow.run_view import COMMAND_VARIABLE

SNAKEFILE_CHOICES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")
"""Files that Snakemake looks for in the working directory."""

_STEP = re.compile(r"\[train\] step (\d+)/(\d+)\b")
"""Prefix of a training's line of progress (``[train]`` marks its lines)."""


def snakemake_command(*words: str) -> list[str]:
    """Return the command that runs Snakemake in the working directory, with this Python.

    The workflow in the working directory is used, or else the workflow of this package.

    Args:
        words: targets and options.

    Raises:
        RunError: if there is no workflow, or Snakemake is not installed.
    """
    if importlib.util.find_spec("snakemake") is None:
        raise RunError(
            f"{sys.executable}: found no Snakemake in this Python, expected the extra workflow; "
            f"{install_advice('workflow')}"
        )
    # The equals sign is needed: targets that follow would be taken for further loggers.
    command = [sys.executable, "-m", "snakemake", "--logger=vrtspike"]
    if not any(map(os.path.isfile, SNAKEFILE_CHOICES)):
        command += ["--snakefile", str(require_home() / SNAKEFILE)]
    return [*command, *words]


def run_snakemake(words: Sequence[str], title: str, repeat: str) -> None:
    """Run Snakemake; print its lines, and show the steps of a training as a progress bar.

    An interruption (Ctrl-C, or "interrupt" in a notebook) stops Snakemake as Ctrl-C does in a
    terminal: trainings save their state. The exception is raised when Snakemake has ended.

    Args:
        words: targets and options.
        title: title of the progress bar.
        repeat: the call that continues the run, for messages.

    Raises:
        RunError: if a job or the plan failed; the reason is among the printed lines.
    """
    process = subprocess.Popen(
        snakemake_command(*words),
        env={**os.environ, COMMAND_VARIABLE: repeat},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Snakemake gets its own session, because a notebook's server signals the whole session of
        # its kernel.
        start_new_session=True,
        preexec_fn=stop_with_parent,
    )
    with process:
        try:
            _show_lines(process, title)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            _show_lines(process, title)
            raise
    if process.returncode:
        raise RunError(
            f"{title}: Snakemake ended with exit status {process.returncode}; its messages "
            "above name the error and the log of the failed job"
        )


def _show_lines(process: subprocess.Popen[str], title: str) -> None:
    """Show the output of a process until it ends."""
    assert process.stdout is not None, "the output is a pipe"
    with progress_bar(title) as progress:
        for line in process.stdout:
            step = _STEP.match(line)
            if step is None:
                print(line, end="", flush=True)
            else:
                progress(int(step[1]), int(step[2]))
