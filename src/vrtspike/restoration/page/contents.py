"""Metrics, doubts and words of the page of restored frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrtspike.reporting.offline_page import Headline
from vrtspike.reporting.page_data import MetricOnPage
from vrtspike.restoration.folder.frame_metrics import FRAME_METRICS, lower_frames, mean_metric
from vrtspike.restoration.folder.opened_request import RestoredClip
from vrtspike.restoration.folder.record import RestoreRecord

FrameMetrics = Sequence[Mapping[str, Any]]
"""Metrics of each frame, as in ``restore.json``."""

TASK = "restored"
"""Name of the gallery of the page."""

_REASONS = {
    "psnr": "PSNR is below that of the blurry frame",
    "reblur": "PSNR when blurred again is below that of the blurry frame",
    "unseen": "agreement with unseen spikes is below that of the blurry frame",
}
_KEPT = "the blurry frame was kept, as it fits the spikes better"
_MISFIT = "its spikes do not fit the blurry frame"


@dataclass(frozen=True)
class ModelOnPage:
    """The results of one model.

    Attributes:
        label: name of the model.
        clip: its restored frames.
        frame_metrics: values by name for each frame, as in ``restore.json``.
        doubts: reasons to doubt a frame, by its name; frames without any are left out.
    """

    label: str
    clip: RestoredClip
    frame_metrics: FrameMetrics
    doubts: Mapping[str, Sequence[str]]

    @property
    def doubtful(self) -> list[int]:
        """Numbers of the frames in doubt."""
        names = self.clip.source.names
        return [index for index, name in enumerate(names) if name in self.doubts]


def frame_doubts(
    frame_metrics: FrameMetrics, misfits: Sequence[str] = (), kept: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return reasons to doubt frames, by name.

    Args:
        frame_metrics: values by name for each frame, as in ``restore.json``.
        misfits: names of the frames that their spikes do not fit.
        kept: names of the frames whose blurry frame was kept.
    """
    doubts: dict[str, list[str]] = {}
    for reason, names in (
        (_MISFIT, misfits),
        (_KEPT, kept),
        *((text, lower_frames(frame_metrics, metric)) for metric, text in _REASONS.items()),
    ):
        for name in names:
            doubts.setdefault(name, []).append(reason)
    return doubts


def model_contents(
    model: ModelOnPage, clip_name: str, pictures: Mapping[int, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the data of a model for the scripts of the page, without videos.

    Args:
        model: its results.
        clip_name: sequence name, from the folder or file of the blurry frames.
        pictures: files of the pictures by kind, by number of the frame.

    Returns:
        its name and gallery, numbers of the frames in doubt, a value for each frame by column (None
        if it was not measured), and metrics and frames with pictures, the worst first, in the form
        of an evaluation.
    """
    metrics = model_metrics(model.frame_metrics)
    columns = [column for metric in metrics for column in metric["columns"]]
    ranking = metrics[0]["name"] if metrics else ""

    def rank(index: int) -> float:
        """Return the value that ranks a frame, the worst first; frames without it come last."""
        value = model.frame_metrics[index].get(ranking)
        return math.inf if value is None else float(value)

    examples = [
        {
            "label": clip_name,
            "frame": model.clip.source.names[number],
            "time": number,
            "chosen": [],
            "metrics": {column: model.frame_metrics[number].get(column) for column in columns},
            "doubts": list(model.doubts.get(model.clip.source.names[number], [])),
            "pictures": pictures[number],
        }
        for number in sorted(pictures, key=rank)
    ]
    return {
        "name": model.label,
        "task": TASK,
        "doubtful": model.doubtful,
        "frame_values": {
            column: [frame.get(column) for frame in model.frame_metrics] for column in columns
        },
        "evaluation": {
            "dataset": clip_name,
            "split": "",
            "metrics": metrics,
            "examples": examples,
            "videos": [],
        },
    }


def model_metrics(frame_metrics: FrameMetrics) -> list[MetricOnPage]:
    """Return the metrics that were measured, with means over the frames that have them.

    The PSNR of frames that equal the sharp ones is None; so is a mean of these alone.
    """
    metrics: list[MetricOnPage] = []
    for metric in FRAME_METRICS:
        name = metric.name
        if not any(name in frame for frame in frame_metrics):
            continue
        restored = mean_metric(frame_metrics, name)
        blurry = mean_metric(frame_metrics, f"{name}_blur")
        gain = None
        if restored is not None and blurry is not None:
            gain = restored - blurry
        metrics.append(
            {
                "name": name,
                "title": metric.title,
                "unit": metric.unit,
                "decimals": metric.decimals,
                "definition": metric.definition,
                "columns": (f"{name}_blur", name),
                "before": "blurry",
                "after": "restored",
                "reference": blurry,
                "result": restored,
                "gain": gain,
                "extra": None,
            }
        )
    return metrics


def headline(models: Sequence[ModelOnPage], clip_name: str, record: RestoreRecord) -> Headline:
    """Return the start of the page.

    Args:
        models: the model, and the one to compare with if there is one.
        clip_name: sequence name, from the folder or file of the blurry frames.
        record: contents of ``restore.json``.
    """
    first = models[0]
    count = len(first.frame_metrics)
    frames = "frame" if count == 1 else "frames"
    sentence = f"{first.label} restored {count} {frames} of {clip_name}"
    metrics = model_metrics(first.frame_metrics)
    if metrics:
        metric = metrics[0]
        # The unit dB alone would suggest PSNR.
        sentence += f": {metric['title']} {_value(metric, metric['reference'])} (blurry) to "
        sentence += _value(metric, metric["result"])
        for other in models[1:]:
            for other_metric in model_metrics(other.frame_metrics):
                if other_metric["name"] == metric["name"]:
                    sentence += f"; {other.label} to {_value(other_metric, other_metric['result'])}"
    facts = [f"{model.label}: {_doubt_fact(model)}" for model in models]
    if len(models) == 1:
        facts = [_doubt_fact(first)]
    facts.append(f"spikes: {record['spikes']['from']}")
    facts.append(f"{record['size'][1]} x {record['size'][0]} pixels")
    if record["doubts"]:
        facts.append("metrics from the spikes are left out, as the spikes do not fit the frames")
    return Headline(f"{sentence}.", facts)


def _value(metric: MetricOnPage, mean: float | None) -> str:
    """Return a mean of a metric in bold, with its unit."""
    text = "–" if mean is None else f"{mean:.{metric['decimals']}f} {metric['unit']}"
    return f"**{text.strip()}**"


def _doubt_fact(model: ModelOnPage) -> str:
    """Return the number of frames in doubt, in words."""
    count = len(model.doubtful)
    if count == 0:
        return "no frame in doubt"
    return f"{count} of {len(model.frame_metrics)} frames in doubt"
