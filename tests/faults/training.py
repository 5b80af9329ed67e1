"""How far a training has come, and trainings that stand still there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

from tests.faults.processes import Command
from tests.workflow.project import Project


def record(project: Project) -> dict:
    """``run.json`` of the project's only run; empty before it has begun."""
    found = [*(project.folder / "runs").glob("*/*/run.json")]
    return json.loads(found[0].read_text()) if found else {}


def has_trained(project: Project, starts: int, steps: int) -> Callable[[], bool]:
    """Whether the next start of a training has made some steps."""

    def told() -> bool:
        run = record(project)
        if len(run.get("starts", [])) <= starts:
            return False
        first = run["starts"][-1]["step"]
        logs = (project.folder / "runs").glob("*/*/metrics.jsonl")
        text = "".join(log.read_text() for log in logs)
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        made = [json.loads(line)["step"] for line in lines if '"kind": "train"' in line]
        return bool(made) and made[-1] >= first + steps

    return told


@contextlib.contextmanager
def held_in_training(command: Command, project: Project, starts: int, steps: int) -> Iterator[None]:
    """Let the next start of a training stand still after some steps; of three, two are saved."""
    command.wait_for(lambda: len(record(project).get("starts", [])) > starts)
    with command.held("rank", until=has_trained(project, starts, steps)):
        yield
