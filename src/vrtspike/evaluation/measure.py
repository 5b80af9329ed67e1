"""Measure the frames of a clip: every metric of every protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image, to_uint8
from vrtspike.evaluation.protocols import EvaluationProtocol
from vrtspike.metrics.metric import ImageMetric, Score
from vrtspike.monitoring.stopwatch import Stopwatch
from vrtspike.restoration.inference.tiling import Compute, InputArrays
from vrtspike.restoration.inputs.clip_source import FrameSource
from vrtspike.restoration.restore import restore_frames
from vrtspike.restoration.spikes_alone import in_gray, to_picture
from vrtspike.settings import Settings
from vrtspike.system.cpus import available_cpus

KEYS = ["protocol", "sequence", "frame"]
"""Columns that identify a row of ``frames.csv``."""

Kind = Literal["blurry", "restored", "spikes", "sharp", "gray"]
"""The images of one frame.

These are the blurry input, the restored frame, the picture from spikes alone, the sharp frame, and
the sharp frame in grey.
"""

REFERENCES: Mapping[Kind, Kind] = {"blurry": "sharp", "restored": "sharp", "spikes": "gray"}
"""The reference of each image that is measured."""

FrameImages = Mapping[Kind, NDArray[Any]]
"""The images of one frame, all (H, W, 3) RGB of one size. All are uint8, except a restored frame
under a protocol that does not round."""

Scores = Mapping[ImageMetric, Score]
"""Functions that measure each metric, in the order of columns."""

FrameRow = dict[str, Any]
"""A row of ``frames.csv``: the metrics of a frame."""


def columns_of(metric: ImageMetric) -> dict[Kind, str]:
    """Return columns of a metric in tables by the image that is measured."""
    blurry, restored = metric.columns
    return {"blurry": blurry, "restored": restored, "spikes": f"{metric.name}_spikes"}


class ClipMeter:
    """Measures the frames of one clip, in order, every metric of a frame in a thread.

    As a context manager, the meter ends its threads.

    Args:
        scores: functions that measure each metric.
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._threads = ThreadPoolExecutor(available_cpus())
        self._previous: FrameImages | None = None

    def __enter__(self) -> Self:
        """Return the meter."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the threads; work that has not begun is dropped."""
        self._threads.shutdown(cancel_futures=True)

    def measure(self, images: FrameImages) -> dict[str, float]:
        """Return every metric of the next frame.

        Args:
            images: the same kinds for every frame of a clip.

        Returns:
            by column of the tables; NaN for a temporal metric of the first frame.
        """
        previous = self._previous
        self._previous = images
        values = {}
        for metric in self._scores:
            for kind, column in columns_of(metric).items():
                if kind in images:
                    values[column] = self._threads.submit(
                        self._value, metric, kind, images, previous
                    )
        return {column: value.result() for column, value in values.items()}

    def _value(
        self, metric: ImageMetric, kind: Kind, images: FrameImages, previous: FrameImages | None
    ) -> float:
        """Return one metric of one image."""
        score = self._scores[metric]
        reference = REFERENCES[kind]
        if not metric.of_motion:
            return score(images[kind], images[reference])
        if previous is None:
            return math.nan
        return score((previous[kind], images[kind]), (previous[reference], images[reference]))


@dataclass(frozen=True)
class MeasuredClip:
    """A sequence to restore and measure.

    Attributes:
        name: name in tables and files.
        source: the input of the model.
        blurry: returns a blurry frame by its number.
        sharp: returns a sharp frame by its number.
        spikes_alone: returns the picture from spikes alone by its number; None without.
    """

    name: str
    source: FrameSource
    blurry: Callable[[int], Image]
    sharp: Callable[[int], Image]
    spikes_alone: Callable[[int], NDArray[np.float32]] | None = None


def measured_frames(
    clip: MeasuredClip,
    compute: Compute,
    scores: Mapping[EvaluationProtocol, Scores],
    settings: Settings,
    watch: Stopwatch | None = None,
) -> Iterator[tuple[list[FrameRow], dict[str, Image]]]:
    """Restore and measure the frames of a sequence.

    The frames pass once: protocols of one tiling share the restored frames, and those of several
    are restored side by side.

    Args:
        clip: sequence with its blurry, sharp and spike inputs.
        compute: function that runs the model.
        scores: the metrics of each protocol; pictures show the frames restored under the first.
        settings: ``TEST`` and the length of a clip.
        watch: times the calls of the model under the first protocol; None times nothing.

    Yields:
        for each frame a row for each protocol, and pictures by the stem of their files.
    """
    test = settings.TEST
    tilings = {protocol: protocol.tiling(test.TILE, settings.DATA.CLIP_LEN) for protocol in scores}
    main_tiling = tilings[next(iter(scores))]
    streams = {}
    for tiling in dict.fromkeys(tilings.values()):
        model = compute
        if watch is not None and tiling == main_tiling:
            model = _timed(compute, watch)
        streams[tiling] = restore_frames(
            model,
            clip.source,
            tiling,
            tiles_at_once=test.BATCH_SIZE,
            readers=test.NUM_WORKERS,
            bits=None,
        )
    with ExitStack() as stack:
        meters = {
            protocol: stack.enter_context(ClipMeter(measured))
            for protocol, measured in scores.items()
        }
        for number, frame in enumerate(clip.source.names):
            restored = {tiling: next(stream) for tiling, stream in streams.items()}
            images: dict[Kind, Image] = {
                "blurry": clip.blurry(number),
                "restored": to_uint8(torch.from_numpy(restored[main_tiling])),
                "sharp": clip.sharp(number),
            }
            pictures: dict[str, Image] = dict(images.items())
            if clip.spikes_alone is not None:
                gray = clip.spikes_alone(number)
                images["spikes"], images["gray"] = in_gray(gray, images["sharp"])
                pictures["spikes"] = to_picture(gray)
            rows = []
            for protocol, meter in meters.items():
                image = protocol.image(restored[tilings[protocol]])
                metrics = meter.measure({**images, "restored": image})
                keys = {"protocol": protocol.name, "sequence": clip.name, "frame": frame}
                rows.append(keys | metrics)
            yield rows, pictures


def _timed(compute: Compute, watch: Stopwatch) -> Compute:
    """Return the model with every call timed."""

    def timed(batch: InputArrays) -> NDArray[np.float32]:
        with watch.lap():
            return compute(batch)

    return timed
