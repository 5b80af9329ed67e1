"""The summary of an evaluation, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.deblurring.data.clips.dataset import DatasetManifest
from vrtspike.deblurring.evaluation.measure import overall_means, spikes_means
from vrtspike.deblurring.evaluation.spikes_alone import definition
from vrtspike.deblurring.metrics.metric import ImageMetric
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.deblurring.settings.schema import SpikesAloneName, deblurring_settings
from vrtspike.pages import Table, write_page
from vrtspike.runs.published import PublishedRun


def summarize(
    run: PublishedRun,
    dataset: DatasetManifest,
    sequences: pd.DataFrame,
    metrics: Sequence[ImageMetric],
) -> dict[str, Any]:
    """What was evaluated on what, and the means over sequences, as a JSON value.

    Args:
        run: the run whose weights were evaluated.
        dataset: the data set.
        sequences: means per sequence and scale.
        metrics: those that were measured.
    """
    settings = deblurring_settings(run.settings)
    scales = [float(scale) for scale in settings.TEST.EVAL_SCALES]
    main = 1.0 if 1.0 in scales else scales[0]
    rows = sequences[sequences["scale"] == main]
    return {
        "schema": 1,
        "task": settings.TASK,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "split": settings.DATA.VAL_SPLIT,
        "blur_dir": dataset.blur_dir,
        "use_spike": settings.MODEL.USE_SPIKE,
        "bins": dataset.bins,
        "tile": settings.TEST.TILE.model_dump(mode="json"),
        "sequences": len(rows),
        "frames": int(rows["frames"].sum()),
        "scale": main,
        "metrics": overall_means(sequences, main, metrics),
        "other_scales": {
            f"{scale:g}": overall_means(sequences, scale, metrics)
            for scale in scales
            if scale != main
        },
        "definitions": {metric.name: metric.explanation for metric in metrics},
        **_spikes_alone(settings.TEST.SPIKES_ALONE, sequences, main, metrics),
    }


def _spikes_alone(
    method: SpikesAloneName | None,
    sequences: pd.DataFrame,
    scale: float,
    metrics: Sequence[ImageMetric],
) -> dict[str, Any]:
    """The baseline, and what it is or why there is none."""
    if method is None:
        return {"spikes_alone": None, "spikes_alone_note": "TEST.SPIKES_ALONE is null"}
    if not {metric.spikes_column for metric in metrics} <= set(sequences):
        return {"spikes_alone": None, "spikes_alone_note": "the data set has no spikes"}
    means = spikes_means(sequences, scale, metrics)
    return {"spikes_alone": means, "spikes_alone_note": definition(method)}


def write_summary_page(
    path: Path, sequences: pd.DataFrame, summary: Mapping[str, Any], metrics: Sequence[ImageMetric]
) -> None:
    """The means as a page: one row per sequence, the mean over sequences last.

    Args:
        path: where to write.
        sequences: means per sequence and scale.
        summary: from :func:`summarize`.
        metrics: those that were measured.
    """
    main = sequences[sequences["scale"] == summary["scale"]].drop(columns="scale")
    headers, formats = {}, {}
    for metric in metrics:
        columns = (*metric.columns, metric.spikes_column)
        kinds = ("blurry", "restored", spikes_label(metric))
        for column, what in zip(columns, kinds, strict=True):
            if column in main:
                headers[column] = f"{metric.name} {what}"
                formats[headers[column]] = metric.format
    mean = {"sequence": "mean over sequences", "frames": summary["frames"]}
    mean |= {column: main[column].mean() for column in headers}
    frame = pd.concat([main, pd.DataFrame([mean])], ignore_index=True)
    absent = " ".join(
        f"No {name}: {entry['reason']}."
        for name, entry in summary["metrics"].items()
        if "reason" in entry
    )
    note = (
        f"{summary['frames']} frames of split '{summary['split']}' of {summary['dataset']}, blurry "
        f"frames from '{summary['blur_dir']}'. {absent}"
    )
    closing = [worst_sentence(summary)] if summary["worst"] else []
    closing += [f"{name}: {text}." for name, text in summary["definitions"].items()]
    if summary["spikes_alone"] is not None:
        closing.append(f"{summary['spikes_alone_note']}.")
    last = frozenset({len(frame) - 1})
    table = Table(frame.rename(columns=headers), formats=formats, strong_rows=last)
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), [table], closing)


def spikes_label(metric: ImageMetric) -> str:
    """What tables call a figure of the spikes alone: in grey, where the metric is of colour."""
    return "spikes alone, grey" if metric.of_colour else "spikes alone"


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """What a summary says, a line for each metric, for the terminal."""
    lines = [f"{summary['preset']}: {summary['frames']} frames, {summary['sequences']} sequences"]
    alone = summary["spikes_alone"] or {}
    for name, means in summary["metrics"].items():
        metric, label = METRICS[name], spikes_label(METRICS[name])
        figures = {**means, label: alone.get(name)}
        known = [
            f"{what} {metric.text(figures[what])}"
            for what in ("blurry", "restored", label)
            if figures[what] is not None
        ]
        reason = [f"missing, {means['reason']}"] if "reason" in means else []
        lines.append(f"  {name}: {', '.join([*known, *reason])}")
    return [*lines, f"  {worst_sentence(summary)}"] if summary["worst"] else lines


def worst_sentence(summary: Mapping[str, Any]) -> str:
    """The worst restored frames by name, in a sentence.

    >>> worst_sentence({"worst": [{"sequence": "a", "frame": "000007", "psnr": 21.34}]})
    'Worst restored frames: a/000007 (psnr 21.34).'
    """
    frames = [
        f"{each['sequence']}/{each['frame']} ({name} {each[name]:{METRICS[name].format}})"
        for each in summary["worst"]
        for name in each.keys() - {"sequence", "frame"}
    ]
    return f"Worst restored frames: {', '.join(frames)}."
