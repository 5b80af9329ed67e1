"""What every evaluation has: its files, below ``results/evaluate/<preset>``, and its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from vrtspike.config.problems import Problem, find_problem
from vrtspike.errors import RunError
from vrtspike.io.files import json_digest, read_mapping, write_json
from vrtspike.runs.published import PublishedRun

if TYPE_CHECKING:
    import torch

FRAMES = "frames.csv"
SEQUENCES = "sequences.csv"
SUMMARY = "summary.json"
TABLE = "metrics.html"
PICTURES = "pictures"
EXAMPLES = "examples"
EXAMPLES_INDEX = "examples.json"
VIDEOS = "videos"

DIGEST = "digest"
"""Key of a summary: the digest of all its other keys."""


class EvaluatedProblem(Problem, Protocol):
    """A problem whose trained weights can be measured."""

    def evaluate(
        self,
        weights: Path,
        run: PublishedRun,
        dataset: Path,
        output: Path,
        device: torch.device,
        progress: Callable[[int, int], None],
    ) -> list[str]:
        """Measure trained weights on the test split and draw pictures of the result.

        Writes the files that this module names, ``summary.json`` last.

        Returns:
            what a person reads of it, line by line.
        """


def evaluated_problem(task: str) -> EvaluatedProblem:
    """The problem that TASK names.

    Raises:
        ConfigError: if there is none.
    """
    return cast("EvaluatedProblem", find_problem(task))


class ChangedSummaryError(RunError):
    """A summary whose figures are not those that its evaluation wrote."""


def write_summary(path: Path, contents: Mapping[str, Any]) -> None:
    """Write a summary with the digest that :func:`read_summary` compares."""
    write_json(path, {**contents, DIGEST: json_digest(dict(contents))})


def read_summary(path: Path) -> dict[str, Any]:
    """The contents of a summary; those of earlier versions have no digest and are not compared.

    Raises:
        ChangedSummaryError: if the file was changed after the evaluation wrote it.
        RunError: if it holds no summary.
    """
    found = read_mapping(path, "evaluate again")
    written = found.pop(DIGEST, None)
    if written is not None and written != (digest := json_digest(found)):
        raise ChangedSummaryError(
            f"{path}: changed after the evaluation wrote it (digest of its contents {digest[:8]}, "
            f"expected {written[:8]}), its figures cannot be trusted; remove it and evaluate again"
        )
    return found
