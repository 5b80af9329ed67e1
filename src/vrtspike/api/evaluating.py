"""Evaluation of a trained model in one call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vrtspike.analysis.evaluation_files import (
    FRAMES,
    SEQUENCES,
    SUMMARY,
    EvaluationSummary,
    read_summary,
)
from vrtspike.api.overrides import override_words
from vrtspike.config.tasks import find_task
from vrtspike.reporting.evaluation_data import read_table
from vrtspike.restoration.inference.precision import choose_device
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.named_models import find_trained_model
from vrtspike.runs.published import read_finished
from vrtspike.system.errors import RunError
from vrtspike.system.progress_bar import progress_bar

if TYPE_CHECKING:
    import pandas as pd
    import torch

_REPEAT = "evaluate again"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics of a trained model on the test split of its data set.

    ``repr`` gives the table that the stage ``evaluate`` writes to its log.

    Attributes:
        summary: contents of ``summary.json``: means over the sequences, protocol, worst frames.
        sequences: means of each sequence and protocol.
        frames: metrics of each frame and protocol.
        lines: the main table, in lines of text.
        folder: folder of tables, page and pictures; None if only the metrics were kept.
    """

    summary: EvaluationSummary
    sequences: pd.DataFrame
    frames: pd.DataFrame
    lines: tuple[str, ...]
    folder: Path | None = None

    def __repr__(self) -> str:
        """Return the main table."""
        return "\n".join(self.lines)


def evaluate(
    run: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    dataset: str | Path | None = None,
    output: str | Path | None = None,
    device: str | torch.device | None = None,
) -> Evaluation:
    """Evaluate a trained model on the test split of its data set, as the stage ``evaluate`` does.

    Restores and measures every frame of the split, which takes as long as the stage. The results
    of the workflow (``results/evaluate/<preset>``) are neither read nor written.

    Args:
        run: result folder of a finished run (``results/train/<preset>``), packed run, ``general``
            or ``owner/name`` of the Hugging Face hub.
        overrides: values of keys of the evaluation, such as ``{"TEST.TILE.SIZE": 128}``, spelt as
            for :func:`vrtspike.train`; others are those of the training.
        dataset: manifest of the prepared data (``results/data/<set>/k<bins>/dataset.json``); None
            is that of the training, as its path was there: in the project's folder.
        output: folder to write tables, page and pictures to; None keeps the metrics only.
        device: ``cpu`` or ``cuda``; None takes a GPU if there is one.

    Raises:
        ConfigError: if the data do not suit the model, or an override is none of the evaluation.
        DataError: if the split or a store is missing.
        RunError: if there is no such model, its weights were changed, or the data set is missing.

    Example::

        evaluation = vrtspike.evaluate("results/train/demo")
        evaluation.sequences.sort_values("psnr")
    """
    folder = find_trained_model(run)
    if folder.suffix == ".onnx":
        raise RunError(
            f"{folder}: found an ONNX file, expected the folder of a run; evaluate the run that it "
            "was made from"
        )
    identity = read_finished(folder).with_overrides(override_words(overrides or {}))
    manifest = Path(identity.dataset if dataset is None else dataset)
    if not manifest.is_file():
        raise RunError(
            f"{manifest}: no such file, expected the data set that {identity.name} was trained on; "
            "go to the project's folder (os.chdir), or give the manifest of prepared data (dataset)"
        )
    with ExitStack() as stack:
        if output is None:
            target = Path(stack.enter_context(TemporaryDirectory()))
        else:
            target = Path(output)
            target.mkdir(parents=True, exist_ok=True)
        progress = stack.enter_context(progress_bar(f"evaluate {identity.name}"))
        job = EvaluationJob(
            folder / WEIGHTS, identity, manifest, target, choose_device(device), progress
        )
        lines = find_task(identity.settings.TASK).evaluate(job)
        return Evaluation(
            read_summary(target / SUMMARY),
            read_table(target / SEQUENCES, _REPEAT),
            read_table(target / FRAMES, _REPEAT),
            tuple(lines),
            None if output is None else target,
        )
