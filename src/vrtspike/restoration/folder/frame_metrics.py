"""Metrics and videos of the restored frames in a folder, and verdicts on these frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from vrtspike.config.tasks import Metric
from vrtspike.data.checks.consistency import Consistency
from vrtspike.data.checks.frame_summaries import FrameSummary, summarize_image
from vrtspike.data.rgb_images import Image
from vrtspike.data.video import video_writer
from vrtspike.io.files import finite_or_null
from vrtspike.io.images import read_picture, to_8_bit
from vrtspike.metrics.psnr import PSNR, psnr
from vrtspike.metrics.ssim import SSIM, ssim
from vrtspike.restoration.checks.limit_check import LimitCheck, kept_frames_warning
from vrtspike.restoration.checks.no_reference import (
    AGREEMENT,
    REBLUR,
    UNSEEN,
    no_reference_metrics,
    unseen_agreement,
)
from vrtspike.restoration.folder.opened_request import RestoredClip
from vrtspike.restoration.folder.record import RESTORE_RECORD, SIDE_BY_SIDE, VIDEO
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.system.errors import list_faults
from vrtspike.system.progress_bar import OpenProgress

MetricFunctions: TypeAlias = Mapping[str, Callable[[Image], float]]
"""Metrics of a frame alone, uint8 (H, W, 3), by their names."""


FRAME_METRICS: tuple[Metric, ...] = (
    replace(PSNR, definition="against the sharp frame"),
    replace(SSIM, definition="against the sharp frame"),
    AGREEMENT,
    REBLUR,
    UNSEEN,
)
"""Metrics of blurry and restored frames; the first that was measured ranks the frames."""


def measure_and_write_videos(
    request: RestoreRequest,
    clip: RestoredClip,
    metric_functions: MetricFunctions,
    open_progress: OpenProgress,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure the restored frames on disk and write the videos.

    Args:
        request: names the videos to write.
        clip: the restored frames.
        metric_functions: metrics of a frame alone, by their names.
        open_progress: opens the progress of this step.

    Returns:
        the metrics of each frame, and messages on sharp frames that do not fit.
    """
    entries = []
    check = Consistency()
    with contextlib.ExitStack() as opened:
        show = opened.enter_context(open_progress("metrics, videos"))
        restored_video = _open_video(opened, request.video, request.output / VIDEO, clip)
        compared_video = _open_video(
            opened, request.side_by_side, request.output / SIDE_BY_SIDE, clip
        )
        for index, (name, path) in enumerate(zip(clip.source.names, clip.files, strict=True)):
            blur = clip.source.frames.frame(index)
            restored = to_8_bit(read_picture(path).rgb)
            images = [blur, restored]
            truth = None
            if clip.sharp is not None:
                truth = clip.sharp.frame(index)
                images.append(truth)
                blurry_view = summarize_image(clip.source.frames.describe(index), blur)
                sharp_view = summarize_image(clip.sharp.describe(index), truth)
                check.add(FrameSummary(blurry_view, sharp_view))
            if restored_video is not None:
                restored_video([restored])
            if compared_video is not None:
                compared_video(images)
            metrics = measure_frame(clip, index, blur, restored, truth, metric_functions)
            # Equal frames have no finite PSNR.
            entries.append({"frame": name, **finite_or_null(metrics)})
            show(index + 1, len(clip.files))
    return entries, check.finish()


def _open_video(
    opened: ExitStack, is_wanted: bool, path: Path, clip: RestoredClip
) -> Callable[[Sequence[Image]], None] | None:
    """Open a video with the time stamps of the clip; None if it is not wanted."""
    if not is_wanted:
        return None
    return opened.enter_context(video_writer(path, like=clip.source.frames.video))


def measure_frame(
    clip: RestoredClip,
    index: int,
    blur: Image,
    restored: Image,
    truth: Image | None,
    metric_functions: MetricFunctions,
) -> dict[str, Any]:
    """Return the metrics of one frame by their names; ``_blur`` marks those of the blurry frame."""
    metrics: dict[str, Any] = {}
    spikes = clip.source.spikes
    if clip.with_spikes and spikes is not None and spikes.frames[index].path:
        metrics |= no_reference_metrics(spikes.frames[index], blur, restored)
    if clip.with_spikes:
        agreements = unseen_agreement(clip.source, index, [blur, restored])
        if agreements is not None:
            metrics["unseen_blur"], metrics["unseen"] = agreements
            metrics["kept_blurry"] = bool(np.array_equal(blur, restored))
    if truth is not None:
        metric_functions = {
            **metric_functions,
            "psnr": partial(psnr, sharp=truth),
            "ssim": partial(ssim, sharp=truth),
        }
    for name, function in metric_functions.items():
        metrics[f"{name}_blur"] = function(blur)
        metrics[name] = function(restored)
    return metrics


def worse_frames_by_metric(
    frames: Sequence[Mapping[str, Any]], check: LimitCheck
) -> dict[str, list[str]]:
    """Return names of frames that became worse, by the metric that shows it.

    Args:
        frames: metrics of each frame.
        check: the recording compared with the limits of the model.
    """
    names_by_metric: dict[str, list[str]] = {"kept blurry": []}
    if check.is_outside:
        names_by_metric["kept blurry"] = [
            frame["frame"] for frame in frames if frame.get("kept_blurry")
        ]
    for metric in ("reblur", "unseen"):
        names_by_metric[metric] = lower_frames(frames, metric)
    return names_by_metric


def mean_metric(frames: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """Return the mean of a metric over the frames that have it; None if none has."""
    values = [frame[metric] for frame in frames if frame.get(metric) is not None]
    return fmean(values) if values else None


def lower_frames(frames: Sequence[Mapping[str, Any]], metric: str) -> list[str]:
    """Return the names of frames with a metric lower than that of the blurry frame."""
    return [
        frame["frame"]
        for frame in frames
        if frame.get(metric) is not None
        and frame.get(f"{metric}_blur") is not None
        and frame[metric] < frame[f"{metric}_blur"]
    ]


def worse_frames_warnings(names_by_metric: Mapping[str, Sequence[str]]) -> list[str]:
    """Return messages on the frames that came out worse than the blurry ones.

    Args:
        names_by_metric: verdicts of the record.
    """
    messages = []
    if names_by_metric["kept blurry"]:
        messages.append(kept_frames_warning(names_by_metric["kept blurry"]))
    reasons = {"reblur": "blurred again", "unseen": "by spikes that the model has not seen"}
    worse: dict[str, list[str]] = {}
    for metric, reason in reasons.items():
        for name in names_by_metric[metric]:
            worse.setdefault(name, []).append(reason)
    if worse:
        faults = [f"{name}: {' and '.join(shown_by)}" for name, shown_by in worse.items()]
        title = "warning: frames that came out worse than the blurry ones"
        advice = f"{RESTORE_RECORD} has the metrics of both; do not trust these frames."
        messages.append(list_faults(title, faults, advice, limit=10))
    return messages
