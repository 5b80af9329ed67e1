"""The summary of an evaluation, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.evaluation_files import chosen_on
from vrtspike.deblurring.data.clips.dataset import DatasetManifest
from vrtspike.deblurring.evaluation.measure import (
    Mean,
    mean_and_error,
    overall_means,
    ranking_metric,
    sequences_lost_to_spikes,
    spikes_means,
)
from vrtspike.deblurring.evaluation.protocols import Protocol
from vrtspike.deblurring.evaluation.spikes_alone import definition
from vrtspike.deblurring.metrics.metric import ImageMetric
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.settings.schema import DataSettings, SpikesAloneName, deblurring_settings
from vrtspike.plotting.pages import Table, write_page
from vrtspike.runs.published import PublishedRun


def summarize(
    run: PublishedRun,
    dataset: DatasetManifest,
    sequences: pd.DataFrame,
    measured: Mapping[Protocol, Iterable[ImageMetric]],
) -> dict[str, Any]:
    """What was evaluated on what, and the means over sequences or frames, as a JSON value.

    Args:
        run: the run whose weights were evaluated.
        dataset: the data set.
        sequences: means per protocol, sequence and scale.
        measured: the metrics of each protocol, the main one first.
    """
    settings = deblurring_settings(run.settings)
    scales = [float(scale) for scale in settings.TEST.EVAL_SCALES]
    main = 1.0 if 1.0 in scales else scales[0]

    def of(protocol: Protocol, scale: float) -> dict[str, Any]:
        rows = sequences[(sequences["protocol"] == protocol.name) & (sequences["scale"] == scale)]
        return overall_means(rows, measured[protocol], protocol.mean)

    def figures(protocol: Protocol) -> dict[str, Any]:
        tiling = protocol.tiling(settings.TEST.TILE, settings.DATA.CLIP_LEN)
        return {
            "protocol": protocol.name,
            "protocol_source": protocol.source,
            "protocol_unknown": protocol.unknown,
            "mean_over": protocol.mean,
            "tile": {
                "SIZE": tiling.size,
                "OVERLAP": tiling.overlap,
                "FRAMES": tiling.frames,
                "FRAMES_OVERLAP": tiling.frames_overlap,
            },
            "metrics": of(protocol, main),
            "other_scales": {
                f"{scale:g}": of(protocol, scale) for scale in scales if scale != main
            },
            "definitions": {metric.name: metric.explanation for metric in measured[protocol]},
        }

    first, *others = measured
    rows = sequences[(sequences["protocol"] == first.name) & (sequences["scale"] == main)]
    return {
        "schema": 1,
        "task": settings.TASK,
        "preset": run.name,
        "fingerprint": run.fingerprint,
        "dataset": dataset.name,
        "dataset_digest": dataset.digest,
        "split": settings.DATA.VAL_SPLIT,
        "blur_dir": dataset.blur_dir,
        "warnings": _warnings(dataset, settings.DATA),
        "use_spike": settings.MODEL.USE_SPIKE,
        "bins": dataset.bins,
        "sequences": len(rows),
        "frames": int(rows["frames"].sum()),
        "scale": main,
        **figures(first),
        "other_protocols": {protocol.name: figures(protocol) for protocol in others},
        **_spikes_alone(settings.TEST.SPIKES_ALONE, rows, list(measured[first]), first.mean),
    }


def _warnings(dataset: DatasetManifest, data: DataSettings) -> list[str]:
    """What a reader of the figures has to know: how the test split entered the training."""
    split = data.VAL_SPLIT
    found = []
    if data.VALIDATION == "test":
        found.append(chosen_on("the test split", "DATA.VALIDATION is test"))
    known = {name: of for name, of in dataset.overlaps.items() if name.startswith(f"{split}/")}
    if known:
        name, training = next(iter(known.items()))
        found.append(
            f"not a test: {len(known)} of {len(dataset.split(split))} test sequences hold frames "
            f"that were trained on ({name} those of {training}; DATA.TEST_ON_TRAINING_FRAMES)"
        )
    return found


def _spikes_alone(
    method: SpikesAloneName | None,
    sequences: pd.DataFrame,
    metrics: Sequence[ImageMetric],
    mean: Mean,
) -> dict[str, Any]:
    """The baseline, and what it is or why there is none."""
    if method is None:
        return {"spikes_alone": None, "spikes_alone_note": "TEST.SPIKES_ALONE is null"}
    if not {metric.spikes_column for metric in metrics} <= set(sequences):
        return {"spikes_alone": None, "spikes_alone_note": "the data set has no spikes"}
    ranking = ranking_metric(metrics)
    return {
        "spikes_alone": spikes_means(sequences, metrics, mean),
        "spikes_alone_note": definition(method),
        "spikes_alone_better": {
            "metric": ranking.name,
            "sequences": sequences_lost_to_spikes(sequences, ranking),
        },
    }


def write_summary_page(
    path: Path, sequences: pd.DataFrame, summary: Mapping[str, Any], metrics: Sequence[ImageMetric]
) -> None:
    """The means as a page: one row per sequence, the mean and its standard error last.

    Args:
        path: where to write.
        sequences: means per sequence and scale.
        summary: from :func:`summarize`.
        metrics: those that were measured.
    """
    main = sequences[
        (sequences["scale"] == summary["scale"]) & (sequences["protocol"] == summary["protocol"])
    ].drop(columns=["scale", "protocol"])
    headers, formats = {}, {}
    for metric in metrics:
        columns = (*metric.columns, metric.spikes_column)
        kinds = ("blurry", "restored", spikes_label(metric))
        for column, what in zip(columns, kinds, strict=True):
            if column in main:
                headers[column] = f"{metric.name} {what}"
                formats[headers[column]] = metric.format
    over = summary["mean_over"]
    last: list[dict[str, Any]] = [
        {"sequence": f"mean over {over}", "frames": summary["frames"]},
        {"sequence": "standard error over sequences"},
    ]
    for name in headers:
        found = mean_and_error(main[name], main["frames"], over)
        for row, value in zip(last, found, strict=True):
            row[name] = value
    frame = pd.concat([main, pd.DataFrame(last)], ignore_index=True).astype({"frames": "Int64"})
    absent = " ".join(
        f"No {name}: {entry['reason']}."
        for name, entry in summary["metrics"].items()
        if "reason" in entry
    )
    note = (
        f"Protocol '{summary['protocol']}': {summary['frames']} frames of split "
        f"'{summary['split']}' of {summary['dataset']}, blurry frames from "
        f"'{summary['blur_dir']}'. {absent} {'. '.join(summary['warnings'])}"
    )
    closing = [*_sentences(summary)]
    closing += [f"{name}: {text}." for name, text in summary["definitions"].items()]
    if summary["spikes_alone"] is not None:
        closing.append(f"{summary['spikes_alone_note']}.")
    closing.append(
        "The standard error says how far a mean would scatter with other sequences; figures of "
        "two protocols do not compare."
    )
    strong = frozenset({len(frame) - 2})
    tables = [Table(frame.rename(columns=headers), formats=formats, strong_rows=strong)]
    tables += [_protocol_table(each) for each in summary["other_protocols"].values()]
    write_page(path, f"Results of preset {summary['preset']}", note.strip(), tables, closing)


def _protocol_table(figures: Mapping[str, Any]) -> Table:
    """The figures of a protocol that is not the main one."""
    rows = [
        {
            "metric": name,
            "blurry": _shown(name, means["blurry"]),
            "restored": _shown(name, means["restored"]),
            "standard error": _shown(name, means["restored_error"]),
            "definition": figures["definitions"][name],
        }
        for name, means in figures["metrics"].items()
    ]
    unknown = figures["protocol_unknown"]
    unknown = f"; not known: {unknown}" if unknown else ""
    return Table(
        pd.DataFrame(rows),
        f"Protocol {figures['protocol']} ({figures['protocol_source']}{unknown})",
    )


def spikes_label(metric: ImageMetric) -> str:
    """What tables call a figure of the spikes alone: in grey, where the metric is of colour."""
    return "spikes alone, grey" if metric.of_colour else "spikes alone"


def _shown(name: str, value: float | None) -> str:
    return "" if value is None else METRICS[name].text(value)


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """What a summary says, a line for each metric, for the terminal."""
    lines = [
        f"{summary['preset']}: {summary['frames']} frames, {summary['sequences']} sequences, "
        f"protocol {summary['protocol']}"
    ]
    alone = summary["spikes_alone"] or {}
    for name, means in summary["metrics"].items():
        metric, label = METRICS[name], spikes_label(METRICS[name])
        figures = {**means, label: alone.get(name)}
        known = [
            f"{what} {metric.text(figures[what])}"
            for what in ("blurry", "restored", label)
            if figures[what] is not None
        ]
        if (error := means["restored_error"]) is not None:
            known.append(f"standard error {metric.text(error)}")
        reason = [f"missing, {means['reason']}"] if "reason" in means else []
        lines.append(f"  {name}: {', '.join([*known, *reason])}")
    for protocol, each in summary["other_protocols"].items():
        shown = ", ".join(
            f"{name} {_shown(name, means['restored'])}" for name, means in each["metrics"].items()
        )
        lines.append(f"  protocol {protocol}: {shown}")
    return [*lines, *(f"  {sentence}" for sentence in _sentences(summary))]


def _sentences(summary: Mapping[str, Any]) -> Iterator[str]:
    """What a reader should know of single sequences and frames."""
    if lost := summary.get("spikes_alone_better", {}).get("sequences"):
        metric = METRICS[summary["spikes_alone_better"]["metric"]]
        named = ", ".join(
            f"{each['sequence']} ({metric.text(each['spikes'])} against "
            f"{metric.text(each['restored'])})"
            for each in lost
        )
        why = (
            " They are compared in grey, so that an error of colours does not count against them."
            if metric.of_colour
            else ""
        )
        yield (
            f"The spikes alone have a better {metric.name} than the restored frames: {named}.{why}"
        )
    if summary["worst"]:
        yield worst_frames_text(summary)


def worst_frames_text(summary: Mapping[str, Any]) -> str:
    """The worst restored frames by name, in a sentence.

    >>> worst_frames_text({"worst": [{"sequence": "a", "frame": "000007", "psnr": 21.34}]})
    'Worst restored frames: a/000007 (psnr 21.34).'
    """
    frames = [
        f"{each['sequence']}/{each['frame']} ({name} {each[name]:{METRICS[name].format}})"
        for each in summary["worst"]
        for name in each.keys() - {"sequence", "frame"}
    ]
    return f"Worst restored frames: {', '.join(frames)}."
