"""The training of a preset, whatever its problem."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vrtspike.launching.signals import EXIT_INTERRUPTED
from vrtspike.problems import find_problem
from vrtspike.runs.identity import RunIdentity
from vrtspike.training.one_process import train_run


def run_preset(folder: Path, code_changed: Sequence[str] = ()) -> int:
    """Train the preset whose run is in ``folder``, as one of the processes that torchrun started.

    Args:
        folder: of the run.
        code_changed: definitions that are no longer those the run began with, for its record.

    Returns:
        0 when the run is finished, :data:`EXIT_INTERRUPTED` when it was stopped and saved.

    Raises:
        UserError: equal on all processes where it concerns all.
    """
    run = RunIdentity.read(folder)
    build = partial(find_problem(run.settings.TASK).build, run)
    outcome = train_run(run, folder, build, code_changed=list(code_changed))
    return 0 if outcome.status == "finished" else EXIT_INTERRUPTED
