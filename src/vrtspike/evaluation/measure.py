"""Measure the frames of a clip: every metric of every protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image, to_uint8
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.evaluation import EvaluationSettings
from vrtspike.evaluation.protocols import EvaluationProtocol
from vrtspike.metrics.metric import ImageMetric, MetricFunction
from vrtspike.monitoring.timing import Stopwatch
from vrtspike.restoration.inference.tiling import TileModel, Tiling
from vrtspike.restoration.inputs.clip_source import ClipSource, ClipWindow
from vrtspike.restoration.spikes_alone import gray_pair, to_picture
from vrtspike.restoration.tiled_inference import restore_frames
from vrtspike.system.cpus import available_cpus

KEYS = ["protocol", "sequence", "frame"]
"""Columns that identify a row of ``frames.csv``."""

ImageKind = Literal["blurry", "restored", "spikes", "sharp", "gray"]
"""The images of one frame.

These are the blurry input, the restored frame, the picture from spikes alone, the sharp frame, and
the sharp frame in grey.
"""

REFERENCES: Mapping[ImageKind, ImageKind] = {
    "blurry": "sharp",
    "restored": "sharp",
    "spikes": "gray",
}
"""The reference of each image that is measured."""

FrameImages = Mapping[ImageKind, NDArray[Any]]
"""The images of one frame, all (H, W, 3) RGB of one size. All are uint8, except a restored frame
under a protocol that does not round."""

MetricFunctions = Mapping[ImageMetric, MetricFunction]
"""Functions that measure each metric, in the order of columns."""

FrameRow = dict[str, Any]
"""A row of ``frames.csv``: the metrics of a frame."""


def columns_of(metric: ImageMetric) -> dict[ImageKind, str]:
    """Return columns of a metric in tables by the image that is measured."""
    blurry, restored = metric.columns
    return {"blurry": blurry, "restored": restored, "spikes": f"{metric.name}_spikes"}


def measure_images(
    metric_functions: MetricFunctions,
    images: FrameImages,
    previous: FrameImages | None,
    threads: ThreadPoolExecutor,
) -> dict[str, float]:
    """Return every metric of a frame.

    Args:
        metric_functions: functions that measure each metric.
        images: the images of the frame.
        previous: the same kinds of images of the frame before; None for the first one.
        threads: each metric of an image is measured in one of them.

    Returns:
        by column of the tables; NaN for a metric of motion of the first frame.
    """

    def value(metric: ImageMetric, kind: ImageKind) -> float:
        function = metric_functions[metric]
        reference = REFERENCES[kind]
        if not metric.measures_motion:
            return function(images[kind], images[reference])
        if previous is None:
            return math.nan
        return function((previous[kind], images[kind]), (previous[reference], images[reference]))

    values = {}
    for metric in metric_functions:
        for kind, column in columns_of(metric).items():
            if kind in images:
                values[column] = threads.submit(value, metric, kind)
    return {column: future.result() for column, future in values.items()}


@dataclass(frozen=True, eq=False)
class FrameReferences:
    """The images of one frame that are not restored by the model.

    Attributes:
        blurry: blurry frame.
        sharp: sharp frame.
        spikes: picture from spikes alone, grey values (h, w) of the sensor's size; None without.
    """

    blurry: Image
    sharp: Image
    spikes: NDArray[np.float32] | None = None


def measured_frames(
    sequence: str,
    source: ClipSource,
    references: Iterable[FrameReferences],
    tile_model: TileModel,
    functions_by_protocol: Mapping[EvaluationProtocol, MetricFunctions],
    settings: DeblurringSettings,
    watch: Stopwatch | None = None,
) -> Iterator[tuple[list[FrameRow], dict[str, Image]]]:
    """Restore and measure the frames of a sequence.

    The frames pass once: protocols of one tiling share the restored frames, and those of several
    are restored side by side.

    Args:
        sequence: name in tables and files.
        source: the input of the model.
        references: the other images of each frame, read one frame at a time.
        tile_model: function that runs the model.
        functions_by_protocol: the metrics of each protocol; pictures show the frames restored under
            the first.
        settings: ``TEST`` and the length of a clip.
        watch: times the calls of the model under the first protocol; None times nothing.

    Yields:
        for each frame a row for each protocol, and pictures by the stem of their files.
    """
    tilings = {protocol: protocol.tiling(settings) for protocol in functions_by_protocol}
    main_tiling = next(iter(tilings.values()))
    models = dict.fromkeys(tilings.values(), tile_model)
    if watch is not None:
        models[main_tiling] = _timed(tile_model, watch)
    streams = _restored_streams(source, models, settings.TEST)
    previous: dict[EvaluationProtocol, FrameImages] = {}
    with ThreadPoolExecutor(available_cpus()) as threads:
        for frame, reference in zip(source.names, references, strict=True):
            restored = {tiling: next(stream) for tiling, stream in streams.items()}
            images = _reference_images(reference)
            rows = []
            for protocol, functions in functions_by_protocol.items():
                image = protocol.image(restored[tilings[protocol]])
                compared: FrameImages = {**images, "restored": image}
                keys = {"protocol": protocol.name, "sequence": sequence, "frame": frame}
                before = previous.get(protocol)
                rows.append(keys | measure_images(functions, compared, before, threads))
                previous[protocol] = compared
            yield rows, _pictures(reference, restored[main_tiling])


def _restored_streams(
    source: ClipSource, models: Mapping[Tiling, TileModel], test: EvaluationSettings
) -> dict[Tiling, Iterator[NDArray[np.float32]]]:
    """Return the restored frames of each tiling, which are computed as they are read."""
    return {
        tiling: restore_frames(
            model,
            source,
            tiling,
            tiles_at_once=test.BATCH_SIZE,
            readers=test.NUM_WORKERS,
            bits=None,
        )
        for tiling, model in models.items()
    }


def _reference_images(reference: FrameReferences) -> FrameImages:
    """Return the images of a frame that are measured under every protocol."""
    images: dict[ImageKind, Image] = {"blurry": reference.blurry, "sharp": reference.sharp}
    if reference.spikes is not None:
        images["spikes"], images["gray"] = gray_pair(reference.spikes, reference.sharp)
    return images


def _pictures(reference: FrameReferences, restored: NDArray[np.float32]) -> dict[str, Image]:
    """Return the pictures of a frame by the stem of their files."""
    pictures = {
        "blurry": reference.blurry,
        "restored": to_uint8(torch.from_numpy(restored)),
        "sharp": reference.sharp,
    }
    if reference.spikes is not None:
        pictures["spikes"] = to_picture(reference.spikes)
    return pictures


def _timed(tile_model: TileModel, watch: Stopwatch) -> TileModel:
    """Return the model with every call timed."""

    def timed(batch: ClipWindow) -> NDArray[np.float32]:
        with watch.lap():
            return tile_model(batch)

    return timed
