"""Files of evaluations: ``results/evaluate/<preset>``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from vrtspike.config.tasks import Metric, find_task
from vrtspike.io.files import atomic_write_text, finite_or_null, read_mapping, write_json
from vrtspike.io.manifests import SEAL, has_broken_seal, sealed
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    import pandas as pd

FRAMES = "frames.csv"
SEQUENCES = "sequences.csv"
SUMMARY = "summary.json"
METRICS_PAGE = "metrics.html"
COMPARISON_PICTURES = "pictures"
EXAMPLES = "examples"
EXAMPLES_INDEX = "examples.json"
VIDEOS = "videos"

WORST = 5
"""Number of worst frames in a summary."""
SCHEMA = 1
"""Version of ``summary.json``."""


class ProtocolResults(TypedDict, total=False):
    """Results of an evaluation under one protocol.

    Attributes:
        protocol: name of the protocol; the default one if it is missing.
        protocol_source: page or publication that describes it.
        protocol_unknown: details that are not known; empty for none.
        mean_over: units of equal weight, ``frames`` or ``sequences``; missing if sequences are not
            independent.
        tile: keys of TEST.TILE.
        metrics: means by metric and kind; null, with ``reason``, if a mean is not finite.
        definitions: definitions by metric.
    """

    protocol: str
    protocol_source: str
    protocol_unknown: str
    mean_over: str
    tile: Mapping[str, Any]
    metrics: Mapping[str, Mapping[str, Any]]
    definitions: Mapping[str, str]


class EvaluationSummary(ProtocolResults, total=False):
    """The contents of ``summary.json``, with the results under the main protocol.

    A task may add entries of its own.

    Attributes:
        schema: :data:`SCHEMA`.
        task: value of TASK; tasks outside this project may omit it.
        preset: name of the preset.
        fingerprint: identity of the run.
        dataset: name of the data set.
        dataset_digest: digest of its contents.
        split: split of the data.
        sequences: number of sequences.
        frames: number of frames.
        warnings: reasons to doubt the values.
        worst: sequence, name and value of the worst frames.
        device: device that computed.
        parameters: number of the model's parameters.
        model_seconds_per_frame: time of the model for a frame.
        figures: ``file`` and ``caption`` of pictures that the evaluation has drawn.
        other_protocols: results under further protocols, by name.
    """

    schema: int
    task: str
    preset: str
    fingerprint: str
    dataset: str
    dataset_digest: str
    split: str
    sequences: int
    frames: int
    warnings: list[str]
    worst: list[dict[str, Any]]
    device: str
    parameters: int
    model_seconds_per_frame: float
    figures: list[dict[str, str]]
    other_protocols: Mapping[str, ProtocolResults]


def write_evaluation(
    job: EvaluationJob,
    split: str,
    frames: pd.DataFrame,
    sequences: pd.DataFrame,
    entries: EvaluationSummary,
) -> EvaluationSummary:
    """Write tables and summary of an evaluation; the summary last, which marks it as complete.

    Args:
        job: job whose folder already contains pictures and page.
        split: split of the data.
        frames: a row for each frame: ``sequence``, ``frame`` and both columns of every metric.
        sequences: a row for each sequence: ``sequence``, ``frames`` (number) and these columns.
        entries: further or replaced entries of the summary. Without ``metrics``, all metrics of the
            task are averaged (:func:`metric_entries`).

    Returns:
        the summary.
    """
    task = find_task(job.run.settings.TASK)
    if "metrics" not in entries:
        entries = {**metric_entries(task.METRICS, frames, sequences), **entries}
    summary: EvaluationSummary = {
        "schema": SCHEMA,
        "task": job.run.settings.TASK,
        "preset": job.run.name,
        "fingerprint": job.run.fingerprint,
        "dataset": job.manifest_path.parent.name,
        "dataset_digest": task.dataset_digest(job.manifest_path),
        "split": split,
        "sequences": len(sequences),
        "frames": len(frames),
        **entries,
    }
    (job.output / EXAMPLES).mkdir(exist_ok=True)
    write_table(job.output / FRAMES, frames)
    write_table(job.output / SEQUENCES, sequences)
    write_summary(job.output / SUMMARY, summary)
    return summary


def metric_entries(
    metrics: Mapping[str, Metric], frames: pd.DataFrame, sequences: pd.DataFrame
) -> EvaluationSummary:
    """Return means over sequences, definitions and the worst frames, as entries of a summary.

    Both means of a metric are over the sequences that have both values, so that the gain compares
    like with like; if none has both, each mean is over all that have the value.

    Args:
        metrics: metrics by name; the first one ranks the frames.
        frames: as for :func:`write_evaluation`.
        sequences: as for :func:`write_evaluation`.
    """
    means = {}
    for metric in metrics.values():
        rows = sequences[[*metric.columns]]
        before, after = map(float, rows.dropna().mean().fillna(rows.mean()))
        kinds = (before, after, metric.gain(after, before))
        means[metric.name] = dict(zip(metric.kinds, kinds, strict=True))
    return {
        "metrics": finite_or_null(means),
        "definitions": {name: metric.explanation for name, metric in metrics.items()},
        "worst": worst_frames(frames, next(iter(metrics.values()))),
    }


_CHOSEN_ON = "chosen on"
_NO_TEST = "not a test"
"""Prefixes of warnings that the values are not a test of the model."""


def chosen_on_warning(data: str, key: str) -> str:
    """Return the warning that values are of data on which the training was chosen.

    >>> chosen_on_warning("the test split", "VALIDATION: test")
    'chosen on the test split: validation looked at it during the training (VALIDATION: test)'
    """
    return f"{_CHOSEN_ON} {data}: validation looked at it during the training ({key})"


def trained_on_warning(sequences: Mapping[str, str], total: int, key: str) -> str:
    """Return the warning that test sequences hold frames that were trained on.

    Args:
        sequences: the test sequences, with the training sequences that hold their frames.
        total: number of all test sequences.
        key: key that allows this.
    """
    name, training = next(iter(sequences.items()))
    return (
        f"{_NO_TEST}: {len(sequences)} of {total} test sequences hold frames that were trained on "
        f"({name} those of {training}; {key})"
    )


NOT_COUNTED = "Not counted"
NOT_COUNTED_NOTE = "In no order: these values are no test of the model."
"""Title and note of a table of evaluations that are not a test of the model."""


def reasons_not_to_count(summary: EvaluationSummary) -> list[str]:
    """Return the warnings that an evaluation's values are not a test of the model.

    >>> reasons_not_to_count({"warnings": ["not a test: 2 of 3", "of other data than it was"]})
    ['not a test: 2 of 3']
    """
    reasons = (_NO_TEST, _CHOSEN_ON)
    return [text for text in summary.get("warnings", ()) if text.startswith(reasons)]


def worst_frames(frames: pd.DataFrame, metric: Metric) -> list[dict[str, str | float]]:
    """Return the frames with the worst values, the worst first.

    Args:
        frames: a row per frame: ``sequence``, ``frame`` and the metric's column.
        metric: metric that ranks the frames.

    Returns:
        at most :data:`WORST` frames with a finite value, each with these three entries.
    """
    rows = frames[frames[metric.name].map(math.isfinite)]
    if metric.larger_is_better:
        worst = rows.nsmallest(WORST, metric.name)
    else:
        worst = rows.nlargest(WORST, metric.name)
    columns = ["sequence", "frame", metric.name]
    return [dict(zip(columns, row, strict=True)) for row in worst[columns].itertuples(index=False)]


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table of values as CSV, with six decimals."""
    atomic_write_text(path, table.to_csv(index=False, float_format="%.6f"))


def write_summary(path: Path, contents: EvaluationSummary) -> None:
    """Write a summary with a seal, which :func:`read_summary` verifies."""
    write_json(path, sealed(contents))


def read_summary(path: Path) -> EvaluationSummary:
    """Read a summary and verify its seal, if it has one.

    Raises:
        RunError: if the file holds no summary of this version, or was changed after the evaluation
            wrote it.
    """
    summary = read_mapping(path, "evaluate again")
    fault = _summary_fault(summary)
    if fault:
        raise RunError(f"{path}: {fault}; remove it and evaluate again")
    summary.pop(SEAL, None)
    return cast("EvaluationSummary", summary)


def summary_damage(path: Path) -> str:
    """Return the fault of a ``summary.json`` that must be written again; empty without one."""
    try:
        fault = _summary_fault(read_mapping(path, "evaluate again"))
    except RunError:
        return f"{path} is damaged"
    return f"{path}: {fault}" if fault else ""


def _summary_fault(summary: Mapping[str, Any]) -> str:
    """Return the reason why a file is not a summary; empty if it is one."""
    # Tasks outside this project may omit the field.
    if summary.get("schema", SCHEMA) != SCHEMA:
        return (
            f"found schema {summary['schema']}, expected {SCHEMA}: no summary of an "
            "evaluation, or that of another version of this project"
        )
    if "fingerprint" not in summary:
        return "no summary of an evaluation, fingerprint is missing"
    if has_broken_seal(summary):
        return "changed after the evaluation wrote it, its values cannot be trusted"
    return ""


def evaluation_folder(folder: Path) -> Path:
    """Return the folder of a run's evaluation.

    >>> evaluation_folder(Path("/results/train/demo"))
    PosixPath('/results/evaluate/demo')
    """
    folder = folder.absolute()
    return folder.parent.parent / "evaluate" / folder.name


def find_evaluation(
    folder: Path, run: PublishedRun, evaluation: Path | None = None
) -> EvaluationSummary | None:
    """Read the evaluation of a run; None without one.

    Args:
        folder: the run's result folder, ``<results>/train/<preset>``.
        run: the run; an evaluation with another fingerprint is ignored.
        evaluation: folder of the evaluation; None is the run's :func:`evaluation_folder`.

    Raises:
        RunError: if the summary is damaged, of another version, or was changed after the
            evaluation.
    """
    path = (evaluation or evaluation_folder(folder)) / SUMMARY
    if not path.is_file():
        return None
    summary = read_summary(path)
    return summary if summary["fingerprint"] == run.fingerprint else None
