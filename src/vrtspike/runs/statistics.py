"""``statistics.json``: what a run standardises its inputs with, kept beside its weights."""

from __future__ import annotations

from pathlib import Path

from vrtspike.errors import RunError
from vrtspike.files import write_json
from vrtspike.problems import find_problem
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import STATISTICS

SCHEMA = 1


def write_statistics(folder: Path) -> None:
    """Write the ``statistics.json`` of a run from its data set, so that its weights can be used.

    Args:
        folder: with the ``settings.json`` of the run.

    Raises:
        DataError: if the data set is not there.
        RunError: if it has changed since the run began.
    """
    run = RunIdentity.read(folder)
    contents = find_problem(run.settings.TASK).statistics(run)
    if contents["dataset_digest"] != run.dataset_digest:
        raise RunError(
            f"{folder / STATISTICS}: cannot be made, {run.dataset} has changed since this run "
            "began; train the preset again"
        )
    write_json(folder / STATISTICS, {"schema": SCHEMA, **contents})
