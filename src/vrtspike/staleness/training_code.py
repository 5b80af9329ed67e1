"""Digests of the code that trained a run.

``code.json`` contains a digest of every source file that the training used when it began
(:mod:`vrtspike.staleness.stage_inputs` names those that do not count). Plans, resumed runs and
``vrtspike why`` name files that have changed since; only RETRAIN trains again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vrtspike.config.tasks import TASKS, find_task
from vrtspike.io.files import read_json, write_json
from vrtspike.runs.file_names import CHECKPOINTS, CODE
from vrtspike.staleness.source_digests import PACKAGE
from vrtspike.staleness.stage_inputs import stage_digests

SCHEMA = 3


@cache
def training_code(program: Path, task: str) -> Mapping[str, str]:
    """Return the digests of the source files that a training uses: ``{"training/loop.py": ...}``.

    Args:
        program: ``scripts/train.py``.
        task: name of the task.
    """
    # Settings are compared by their values.
    digests = stage_digests(program, [TASKS[task]], [find_task(task).SETTINGS.__module__])
    return {file.removeprefix(f"{PACKAGE}/"): digest for file, digest in digests.items()}


def write_code(folder: Path, files: Mapping[str, str] | None) -> None:
    """Write ``code.json``; None for files that are unknown."""
    write_json(folder / CODE, {"schema": SCHEMA, "files": None if files is None else dict(files)})


def record_code(folder: Path, program: Path, task: str) -> list[str]:
    """Write ``code.json`` of a new run; compare the code of a run that has begun.

    Args:
        folder: folder of the run.
        program: path of the training program, whose imports count.
        task: name of the task.

    Returns:
        files that have changed since the run began; a single message if that is unknown.
    """
    if not any((folder / CHECKPOINTS).glob("step_*.pt")):
        write_code(folder, training_code(program, task))
        return []
    changed = code_changes(folder, program, task)
    if changed is None:
        # A result is published with the file, which must not claim the code of today.
        write_code(folder, None)
        return [f"{CODE} does not say with which code"]
    return changed


def code_changes(folder: Path, program: Path, task: str) -> list[str] | None:
    """Return the source files that were changed, added or removed since a run began, sorted.

    Args:
        folder: folder of the run or its published result, with ``code.json``.
        program: path of the training program, whose imports count.
        task: name of the task.

    Returns:
        Paths of source files; a single message for a ``code.json`` of another version, None if the
        file is missing or damaged, or the former code is unknown.
    """
    try:
        contents = read_json(folder / CODE)
        schema = contents["schema"]
        former_digests = dict(contents["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if schema != SCHEMA:
        return [f"{CODE} of another version"]
    current_digests = training_code(program, task)
    return sorted(
        name
        for name in former_digests.keys() | current_digests.keys()
        if former_digests.get(name) != current_digests.get(name)
    )
