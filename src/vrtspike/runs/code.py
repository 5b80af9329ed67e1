"""Digests of the code that trained a run; a difference is told and retrains nothing by itself.

``code.json`` holds a digest of every definition (function, class or constant) that training used
when the run began. Where today's differ, a plan, a resumed run and ``vrtspike why`` say which; to
train again is the user's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.io.files import read_json, write_json
from vrtspike.runs.names import CHECKPOINTS, CODE
from vrtspike.runs.provenance import definition_digests

NEUTRAL_MODULES = (
    "vrtspike.config",
    "vrtspike.system.endings",
    "vrtspike.io.files",
    "vrtspike.cluster",
    "vrtspike.io.locks",
    "vrtspike.monitoring",
    "vrtspike.config.problems",
    "vrtspike.runs",
    "vrtspike.training.checkpoints",
    "vrtspike.io.manifests",
)
"""Code that decides no weights: logs, launching, files. Settings are compared by their values. What
else does not in the folder of a problem, its settings name (``observers``)."""

_MAX_SHOWN = 3


@cache
def training_code(program: Path, task: str) -> Mapping[str, str]:
    """Digests of the definitions behind a training program: ``{"training/loop.py:Trainer": ...}``.

    Args:
        program: ``scripts/train.py``.
        task: the problem that is trained for.
    """
    module = PROBLEMS[task]
    # As those of the configuration, settings of a problem are compared by their values.
    own = ("settings", *find_problem(task).SETTINGS.neutral_modules)
    neutral = [*NEUTRAL_MODULES, *(f"{module.rpartition('.')[0]}.{name}" for name in own)]
    return definition_digests(program, neutral=neutral, uses=[f"{module}.build"])


def write_code(folder: Path, definitions: Mapping[str, str]) -> None:
    """Write ``code.json``."""
    write_json(folder / CODE, {"schema": 1, "definitions": dict(definitions)})


def read_code(folder: Path) -> Mapping[str, str] | None:
    """The code that a run began with; None where nothing (readable) tells it."""
    try:
        return dict(read_json(folder / CODE)["definitions"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record_code(folder: Path, program: Path, task: str) -> list[str]:
    """Note with which code a run begins; of one that has begun, tell what has changed since.

    Args:
        folder: of the run.
        program: the training program.
        task: the problem that is trained for.

    Returns:
        the definitions that differ from those the run began with.
    """
    changed = code_changes(folder, program, task)
    if changed is None or not any((folder / CHECKPOINTS).glob("step_*.pt")):
        write_code(folder, training_code(program, task))
        return []
    return changed


def code_changes(folder: Path, program: Path, task: str) -> list[str] | None:
    """The definitions that differ from those a run, or its published result, began with.

    Args:
        folder: with ``code.json``.
        program: the training program.
        task: the problem that is trained for.

    Returns:
        None where nothing tells with which code it began.
    """
    then = read_code(folder)
    return None if then is None else changed_code(then, training_code(program, task))


def changed_code(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The definitions that were changed, added or removed, sorted.

    >>> changed_code({"a.py:f": "1", "a.py:g": "2"}, {"a.py:f": "1", "a.py:g": "3", "b.py:h": "4"})
    ['a.py:g', 'b.py:h']
    """
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


def describe_code_changes(changed: list[str]) -> str:
    """Changed definitions in a few words.

    >>> describe_code_changes(["a.py:f", "a.py:g", "b.py:h", "b.py:i"])
    'f in a.py, g in a.py, h in b.py, and 1 more'
    """
    parts = (name.rpartition(":") for name in changed[:_MAX_SHOWN])
    shown = ", ".join(f"{definition} in {file}" for file, _, definition in parts)
    rest = len(changed) - _MAX_SHOWN
    return f"{shown}, and {rest} more" if rest > 0 else shown
