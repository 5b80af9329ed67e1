"""The summary of an evaluation, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.data.clips.dataset import DatasetManifest
from vrtspike.deblurring.metrics.metric import Metric
from vrtspike.evaluation.measure import overall_means
from vrtspike.pages import Table, write_page
from vrtspike.runs.published import PublishedRun


def summarize(
    run: PublishedRun,
    dataset: DatasetManifest,
    sequences: pd.DataFrame,
    metrics: Sequence[Metric],
) -> dict[str, Any]:
    """What was evaluated on what, and the means over sequences, as a JSON value.

    Args:
        run: the run whose weights were evaluated.
        dataset: the data set.
        sequences: means per sequence and scale.
        metrics: those that were measured.
    """
    settings = run.settings
    scales = [float(scale) for scale in settings.TEST.EVAL_SCALES]
    main = 1.0 if 1.0 in scales else scales[0]
    rows = sequences[sequences["scale"] == main]
    return {
        "schema": 1,
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
    }


def write_summary_page(
    path: Path, sequences: pd.DataFrame, summary: Mapping[str, Any], metrics: Sequence[Metric]
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
        for column, what in zip(metric.columns, ("blurry", "restored"), strict=True):
            headers[column] = f"{metric.name} {what}"
            formats[headers[column]] = metric.format
    mean = {"sequence": "mean over sequences", "frames": summary["frames"]}
    mean |= {column: main[column].mean() for column in headers}
    frame = pd.concat([main, pd.DataFrame([mean])], ignore_index=True)
    definitions = " ".join(f"{name}: {text}." for name, text in summary["definitions"].items())
    absent = " ".join(
        f"No {name}: {entry['reason']}."
        for name, entry in summary["metrics"].items()
        if "reason" in entry
    )
    note = (
        f"{summary['frames']} frames of split '{summary['split']}' of {summary['dataset']}, blurry "
        f"frames from '{summary['blur_dir']}'. {definitions} {absent}"
    )
    last = frozenset({len(frame) - 1})
    table = Table(frame.rename(columns=headers), formats=formats, strong_rows=last)
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), [table])
