"""The summary of an evaluation, as JSON, as a page and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    FRAMES,
    SEQUENCES,
    SUMMARY,
    TABLE,
    EvaluationJob,
    chosen_on,
    trained_on,
    worst_frames,
    write_summary,
    write_table,
)
from vrtspike.config.run_schema import kept_note
from vrtspike.data.clips.dataset import DatasetManifest
from vrtspike.data.clips.run_statistics import learned_dataset
from vrtspike.evaluation.protocols import Mean, Protocol
from vrtspike.io.files import finite_or_null
from vrtspike.metrics.metric import ImageMetric
from vrtspike.metrics.psnr import PSNR
from vrtspike.metrics.registry import METRICS
from vrtspike.plotting.pages import Table, write_page
from vrtspike.restoration.spikes_alone import definition
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import SHIPPED_NAMES
from vrtspike.settings.schema import deblurring_settings

KEYS = ["protocol", "sequence", "frame"]

Kind = Literal["blurry", "restored", "spikes", "sharp", "gray"]
REFERENCES: Mapping[Kind, Kind] = {"blurry": "sharp", "restored": "sharp", "spikes": "gray"}
"""What is measured against what."""


def columns_of(metric: ImageMetric) -> dict[Kind, str]:
    """Columns of the tables by what is measured."""
    return dict(zip(REFERENCES, (*metric.columns, f"{metric.name}_spikes"), strict=True))


def write_results(
    job: EvaluationJob,
    dataset: DatasetManifest,
    frames: pd.DataFrame,
    measured: Mapping[Protocol, Iterable[ImageMetric]],
    **facts: Any,  # noqa: ANN401 - JSON values
) -> dict[str, Any]:
    """Write tables, page and summary, and return the latter.

    Args:
        job: whose weights were evaluated, and the folder.
        dataset: the data set.
        frames: a row for each frame and protocol.
        measured: the metrics of each protocol, the main one first.
        facts: further entries of the summary.
    """
    run, output, sequences = job.run, job.output, sequence_means(frames)
    settings = deblurring_settings(run.settings)

    def figures(protocol: Protocol) -> dict[str, Any]:
        tiling = protocol.tiling(settings.TEST.TILE, settings.DATA.CLIP_LEN)
        rows = sequences[sequences["protocol"] == protocol.name]
        return {
            "protocol": protocol.name,
            "protocol_source": protocol.source,
            "protocol_unknown": protocol.unknown,
            "mean_over": protocol.mean,
            "tile": {key.upper(): value for key, value in asdict(tiling).items() if key != "plain"},
            "metrics": overall_means(rows, measured[protocol], protocol.mean),
            "definitions": {metric.name: metric.explanation for metric in measured[protocol]},
        }

    first, *others = measured
    main, method = figures(first), settings.TEST.SPIKES_ALONE
    alone = {name: each["spikes"] for name, each in main["metrics"].items() if "spikes" in each}
    note = "TEST.SPIKES_ALONE is null" if method is None else "the data set has no spikes"
    own = frames[frames["protocol"] == first.name]
    ranking = ranking_metric(list(measured[first]))
    summary = {
        "schema": 1,
        "task": settings.TASK,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "split": settings.DATA.VAL_SPLIT,
        "blur_dir": dataset.blur_dir,
        "warnings": _warnings(dataset, run, job.weights.parent),
        "use_spike": settings.MODEL.USE_SPIKE,
        "bins": dataset.bins,
        "sequences": int(own["sequence"].nunique()),
        "frames": len(own),
        **main,
        "other_protocols": {protocol.name: figures(protocol) for protocol in others},
        "spikes_alone": alone or None,
        "spikes_alone_note": definition(method) if alone and method is not None else note,
        "worst": worst_frames(own, ranking),
        **facts,
    }
    write_table(output / FRAMES, frames)
    write_table(output / SEQUENCES, sequences)
    write_summary_page(output / TABLE, sequences, summary)
    write_summary(output / SUMMARY, summary)
    return summary


def _warnings(dataset: DatasetManifest, run: RunIdentity, folder: Path) -> list[str]:
    """Warnings for readers of the figures: other data, and how the test split was used.

    Args:
        dataset: that was evaluated.
        run: whose weights.
        folder: of its published result.
    """
    data, start = deblurring_settings(run.settings).DATA, run.settings.kept_start
    split = data.VAL_SPLIT
    warnings = []
    if start is not None:
        name, digest = learned_dataset(folder)
        is_own = digest == dataset.digest
        warnings.append(f"{kept_note(start)}: {_learned(start, name, is_own)}")
        if not is_own:
            return warnings
    elif dataset.digest != run.dataset_digest:
        warnings.append(f"of other data than it was trained on: {dataset.name} has another digest")
    if data.VALIDATION == "test":
        warnings.append(chosen_on("the test split", "DATA.VALIDATION is test"))
    overlaps = {name: of for name, of in dataset.overlaps.items() if name.startswith(f"{split}/")}
    if overlaps:
        warnings.append(trained_on(overlaps, len(dataset.split(split))))
    return warnings


def _learned(start: str, dataset: str, is_own: bool) -> str:
    """Data that weights which stayed as they came have learned from, in words.

    Args:
        start: their name.
        dataset: name of the data set that they have learned from.
        is_own: whether it is the evaluated one.
    """
    if is_own:
        return "they were trained on this data set"
    if start in SHIPPED_NAMES:
        # Pictures inside packages, which the demo's test photographs are not among.
        return "they have not seen these scenes"
    return f"they were trained on the data set {dataset}"


def _worst(summary: Mapping[str, Any]) -> list[str]:
    """A sentence that names the worst frames; none where none has a figure."""
    worst = summary["worst"]
    if not worst:
        return []
    name = next(name for name in worst[0] if name in METRICS)
    frames = ", ".join(
        f"{each['sequence']}/{each['frame']} ({METRICS[name].text(each[name])})" for each in worst
    )
    return [f"Worst restored frames by {name}: {frames}."]


def figure_table(figures: Mapping[str, Any]) -> pd.DataFrame:
    """The means of a protocol as texts, a row for each metric, and why one is missing."""
    rows = []
    for name, means in figures["metrics"].items():
        metric, row = METRICS[name], {"metric": name}
        spikes = "spikes alone (grey)" if metric.of_colour else "spikes alone"
        titles = {"blurry": "blurry", "restored": "restored", "spikes": spikes}
        for kind, title in (titles | {"restored_error": "standard error"}).items():
            if means.get(kind) is not None:
                row[title] = metric.text(means[kind])
        if "reason" in means:
            row["missing"] = means["reason"]
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def write_summary_page(path: Path, sequences: pd.DataFrame, summary: Mapping[str, Any]) -> None:
    """The means of each protocol as a page, and those of each sequence under the main one.

    Args:
        path: where to write.
        sequences: means per protocol and sequence.
        summary: from :func:`write_results`.
    """
    tables = []
    for each in (summary, *summary["other_protocols"].values()):
        unknown = f"; not known: {each['protocol_unknown']}" if each["protocol_unknown"] else ""
        title = f"Protocol {each['protocol']}, mean over {each['mean_over']}"
        definitions = list(each["definitions"].values())
        table = figure_table(each).assign(definition=definitions)
        tables.append(Table(table, title, f"{each['protocol_source']}{unknown}"))
    main = sequences[sequences["protocol"] == summary["protocol"]].drop(columns="protocol")
    metrics = [METRICS[name] for name in summary["metrics"]]
    formats = {column: m.format for m in metrics for column in columns_of(m).values()}
    tables.append(Table(main, "Sequences", formats=formats))
    note = (
        f"{summary['frames']} frames of split '{summary['split']}' of {summary['dataset']}, blurry "
        f"frames from '{summary['blur_dir']}'. {'. '.join(summary['warnings'])}"
    )
    closing = [
        *_worst(summary),
        *([f"{summary['spikes_alone_note']}."] if summary["spikes_alone"] else []),
        "The standard error says how far a mean would scatter with other sequences; figures of "
        "two protocols do not compare.",
    ]
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), tables, closing)


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """What a summary says, for the terminal."""
    lines = [f"{summary['preset']}: {summary['frames']} frames, {summary['sequences']} sequences"]
    for each in (summary, *summary["other_protocols"].values()):
        lines.append(f"protocol {each['protocol']}")
        lines += figure_table(each).to_string(index=False).splitlines()
    return [*lines, *_worst(summary)]


def sequence_means(frames: pd.DataFrame) -> pd.DataFrame:
    """Mean over the frames of each sequence that have a figure, with their number in ``frames``.

    One row for each protocol and sequence.
    """
    columns = [name for name in frames.columns if name not in KEYS]
    groups = frames.groupby([key for key in KEYS if key != "frame"], sort=False)
    means = groups[columns].mean()
    means.insert(0, "frames", groups.size())
    return means.reset_index()


def mean_and_error(values: pd.Series, frames: pd.Series, mean: Mean) -> tuple[float, float]:
    """A figure of a test set and its standard error, both from those of the sequences.

    Args:
        values: of each sequence, means over its frames.
        frames: of each sequence.
        mean: whether every frame counts alike, or every sequence.

    Returns:
        the mean, and how far it would scatter with other sequences; NaN for a single one.

    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "sequences")
    (2.0, 1.0)
    >>> mean_and_error(pd.Series([1.0, 3.0]), pd.Series([30, 10]), "frames")
    (1.5, 0.75)
    """
    known = values.notna()
    values, frames = values[known], frames[known]
    weights = (frames if mean == "frames" else frames.clip(1, 1)) / 1.0
    weights /= weights.sum()
    found, count = float((weights * values).sum()) if len(values) else math.nan, len(values)
    if count < 2 or not math.isfinite(found):
        return found, math.nan
    squares = float(((weights * (values - found)) ** 2).sum())
    return found, math.sqrt(count / (count - 1) * squares)


def overall_means(
    sequences: pd.DataFrame, metrics: Iterable[ImageMetric], mean: Mean = "sequences"
) -> dict[str, dict[str, float | str | None]]:
    """Means over some sequences.

    Args:
        sequences: rows of one protocol from :func:`sequence_means`.
        metrics: those that were measured.
        mean: whether every frame counts alike, or every sequence.

    Returns:
        by metric ``blurry``, ``restored``, ``gain`` (by how much the restored frames are better
        than the blurry ones: positive is better, whichever values of the metric are), the standard
        error over sequences of the restored frames, and ``spikes``, what the spikes alone show, if
        they were measured; null, with the ``reason``, where there is no finite number.
    """
    means: dict[str, dict[str, float | str | None]] = {}
    for metric in metrics:
        found = {
            kind: mean_and_error(sequences[column], sequences["frames"], mean)
            for kind, column in columns_of(metric).items()
            if column in sequences
        }
        figures: dict[str, float] = {kind: value for kind, (value, _) in found.items()}
        figures["restored_error"] = found["restored"][1]
        figures["gain"] = metric.gain(figures["restored"], figures["blurry"])
        entry = means[metric.name] = finite_or_null(figures)
        if math.isnan(figures["blurry"]):
            entry["reason"] = "no sequence has two frames, between which it is measured"
        elif entry["gain"] is None:
            entry["reason"] = "some frames equal the sharp ones: the mean is not finite"
    return means


def ranking_metric(metrics: Sequence[ImageMetric]) -> ImageMetric:
    """What frames are ranked by, from the worst to the best: PSNR, or else the first metric."""
    return PSNR if PSNR in metrics else metrics[0]
