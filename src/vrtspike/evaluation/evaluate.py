"""Evaluate trained weights on the test split: tables, summary, pictures, videos."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from vrtspike.analysis.evaluation_files import (
    EXAMPLES,
    FRAMES,
    PICTURES,
    VIDEOS,
    EvaluationJob,
    write_table,
)
from vrtspike.data.clips.dataset import load_fitting_dataset, read_statistics
from vrtspike.data.rgb_images import Image, to_uint8
from vrtspike.data.store.reading import Store
from vrtspike.data.video import video_file
from vrtspike.evaluation.examples import Examples
from vrtspike.evaluation.protocols import PROTOCOLS, Protocol
from vrtspike.evaluation.published import (
    PublishedFigure,
    require_published_frames,
    require_published_weights,
    vrt_on_gopro,
)
from vrtspike.evaluation.summary import (
    KEYS,
    REFERENCES,
    Kind,
    columns_of,
    ranking_metric,
    write_results,
)
from vrtspike.evaluation.visuals import comparison
from vrtspike.io.files import replaced_folder
from vrtspike.io.images import write_png
from vrtspike.metrics.metric import ImageMetric, Score
from vrtspike.models import build_model
from vrtspike.restoration.batches import Compute
from vrtspike.restoration.given_clips import given_clip
from vrtspike.restoration.pictures import folder_pictures
from vrtspike.restoration.restore import load_model, restore_frames, torch_compute
from vrtspike.restoration.sources import FrameSource, sharp_frame, stored_sequence
from vrtspike.restoration.spikes_alone import RECONSTRUCTIONS, in_gray, spikes_alone, to_picture
from vrtspike.restoration.tiling import Progress
from vrtspike.settings import Settings, deblurring_settings
from vrtspike.system.cpus import available_cpus
from vrtspike.system.errors import RunError

FrameImages = Mapping[Kind, NDArray[Any]]
"""What is compared of one frame, all (H, W, 3) RGB of one size and uint8, but for a result that a
protocol does not round: the blurry input, the model's output, the sharp frame; where there are
spikes what these show, and the sharp frame in grey."""

Scores = Mapping[ImageMetric, Score]
"""What measures each metric, in the order of columns."""

Row = dict[str, Any]
"""One frame in ``frames.csv``."""


def evaluate_run(job: EvaluationJob) -> dict[str, Any]:
    """Restore the test split with a run's weights, measure it, and write every result.

    Args:
        job: into its folder go ``frames.csv``, ``sequences.csv``, ``summary.json``,
            ``metrics.html``, ``pictures/``, ``examples/`` and, with TEST.SAVE_VIDEO, ``videos/``.

    Returns:
        the contents of ``summary.json``.

    Raises:
        ConfigError: if the data set was built with other bins than the model takes, or has no
            spikes and the model needs them.
        DataError: if the split, a store, or weights that a metric needs are missing.
        RunError: if the weights belong to another model, or the statistics beside them are missing.
    """
    settings, device, output = deblurring_settings(job.run.settings), job.device, job.output
    test, dataset = settings.TEST, load_fitting_dataset(job.dataset, settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    protocols, weights_dir = [PROTOCOLS[name] for name in test.PROTOCOL], Path(settings.WEIGHTS.DIR)
    for protocol in protocols:
        protocol.require_blur(dataset.blur_dir, str(job.dataset))
    scores: dict[Protocol, Scores] = {
        protocol: {m: m.load(weights_dir, device) for m in protocol.metrics(test.METRICS)}
        for protocol in protocols
    }
    model = load_model(job.weights, settings, device)

    statistics = read_statistics(job.weights.parent) if settings.MODEL.USE_SPIKE else None
    compute = torch_compute(model, statistics, device)
    started, total = time.monotonic(), sum(entry.frames for entry in entries)
    rows: list[Row] = []
    with contextlib.ExitStack() as opened:
        pictures, examples_folder, videos = (
            opened.enter_context(replaced_folder(output / name))
            for name in (PICTURES, EXAMPLES, VIDEOS)
        )
        examples = Examples(examples_folder, ranking_metric(list(scores[protocols[0]])))
        job.progress(0, total)
        for entry in entries:
            store, seen = Store(entry.store), None
            if test.SPIKES_ALONE is not None and store.layout.spike_size is not None:
                seen = partial(spikes_alone, store, RECONSTRUCTIONS[test.SPIKES_ALONE])
            source, sharp = stored_sequence(store), partial(sharp_frame, store)
            frames = measured_frames(compute, scores, settings, entry.name, source, sharp, seen)
            video = video_file(videos / f"{entry.name}.mp4") if test.SAVE_VIDEO else None
            with video or contextlib.nullcontext() as append:
                for number, (found, images) in enumerate(frames):
                    rows += found
                    middle = number == entry.frames // 2
                    examples.offer(found[0], images, middle=middle)
                    shown = [images[stem] for stem in ("blurry", "restored", "sharp")]
                    if middle:
                        name = f"{entry.name}_{found[0]['frame']}.png"
                        write_png(pictures / name, comparison(*shown))
                    if append is not None:
                        append(shown)
                    job.progress(len(rows) // len(protocols), total)
            examples.end_sequence()
        examples.write_index()
    if not test.SAVE_VIDEO:
        shutil.rmtree(output / VIDEOS)
    seconds = time.monotonic() - started
    return write_results(
        job,
        dataset,
        pd.DataFrame(rows),
        scores,
        device=device.type,
        parameters=sum(p.numel() for p in model.parameters()),
        seconds_per_frame=seconds / total,
    )


class ClipMeter:
    """Measures the frames of one clip, in order, every figure of a frame in a thread.

    Args:
        scores: what is measured, and how.
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._threads = ThreadPoolExecutor(available_cpus())
        self._before: FrameImages | None = None

    def measure(self, images: FrameImages) -> dict[str, float]:
        """Every metric of the next frame.

        Args:
            images: the same kinds for every frame of a clip.

        Returns:
            by column of the tables; NaN where a temporal metric has no frame before this one.
        """
        before, self._before = self._before, images

        def figure(metric: ImageMetric, kind: Kind) -> float:
            score, compared = self._scores[metric], (kind, REFERENCES[kind])
            if not metric.of_motion:
                return score(*(images[each] for each in compared))
            if before is None:
                return math.nan
            return score(*((before[each], images[each]) for each in compared))

        figures = {
            column: self._threads.submit(figure, metric, kind)
            for metric in self._scores
            for kind, column in columns_of(metric).items()
            if kind in images
        }
        return {column: found.result() for column, found in figures.items()}


def measured_frames(
    compute: Compute,
    scores: Mapping[Protocol, Scores],
    settings: Settings,
    sequence: str,
    source: FrameSource,
    sharp: Callable[[int], Image],
    seen: Callable[[int], NDArray[np.float32]] | None = None,
) -> Iterator[tuple[list[Row], dict[str, Image]]]:
    """For every frame a row per protocol, and pictures by the stem of their files.

    The frames pass once: protocols of one tiling share what is restored, and those of several are
    restored side by side.

    Args:
        compute: the model.
        scores: the metrics of each protocol; pictures show what is restored under the first.
        settings: ``TEST`` and the length of a clip.
        sequence: its name.
        source: its blurry frames and spikes.
        sharp: gives a sharp frame by its number.
        seen: gives what the spikes alone show of one; None where that is not measured.
    """
    meters = {protocol: ClipMeter(measured) for protocol, measured in scores.items()}
    test, main = settings.TEST, next(iter(scores))
    tilings = {protocol: protocol.tiling(test.TILE, settings.DATA.CLIP_LEN) for protocol in scores}
    options: dict[str, Any] = {"tiles_at_once": test.BATCH_SIZE, "readers": test.NUM_WORKERS}
    streams = {
        tiling: restore_frames(compute, source, tiling, rounded=False, **options)
        for tiling in tilings.values()
    }
    for number, name in enumerate(source.names):
        values = {tiling: next(stream) for tiling, stream in streams.items()}
        blur, truth = source.read(slice(number, number + 1))["blur"][0], sharp(number)
        restored = to_uint8(torch.from_numpy(values[tilings[main]]))
        images: dict[Kind, Image] = {"blurry": blur, "restored": restored, "sharp": truth}
        pictures: dict[str, Image] = {"blurry": blur, "restored": restored, "sharp": truth}
        if seen is not None:
            gray = seen(number)
            images["spikes"], images["gray"] = in_gray(gray, truth)
            pictures["spikes"] = to_picture(gray)
        rows = []
        for protocol, meter in meters.items():
            keys = dict(zip(KEYS, (protocol.name, sequence, name), strict=True))
            image = protocol.image(values[tilings[protocol]])
            rows.append(keys | meter.measure({**images, "restored": image}))
        yield rows, pictures


def reproduce_vrt(
    settings: Settings,
    output: Path,
    device: torch.device,
    progress: Progress,
    expected: PublishedFigure | None = None,
) -> str:
    """Evaluate VRT's published weights without spikes as its paper did, under protocol ``vrt``.

    Frames are read from their files: nothing is prepared, and only the test split is needed.

    Args:
        settings: of a preset without spikes that starts from these weights.
        output: folder for ``frames.csv``, with PSNR and SSIM of each frame.
        device: where to compute.
        progress: called with the frames done and their total.
        expected: the published figure; None is VRT's on GoPro.

    Returns:
        what was expected and what was found.

    Raises:
        ConfigError: if the weights are not there.
        DataError: if the test split is not the one of the figure.
        RunError: if the figure is not found within the limit.
    """
    expected, protocol = expected or vrt_on_gopro(), PROTOCOLS["vrt"]
    require_published_weights(settings)
    clips = require_published_frames(settings, str(protocol.blur_dir), expected)
    compute = torch_compute(build_model(settings).float().eval().to(device), None, device)
    root, weights_dir = Path(settings.DATA.ROOT), Path(settings.WEIGHTS.DIR)
    metrics = protocol.metrics(("psnr", "ssim"))
    scores = {protocol: {metric: metric.load(weights_dir, device) for metric in metrics}}
    rows: list[Row] = []
    progress(0, expected.frames)
    for files in clips:
        blur = [root / path for path in files.blur.values()]
        truth = [root / files.sharp[number] for number in files.blur]
        source, sharp = given_clip(folder_pictures(root, blur)), folder_pictures(root, truth)
        frames = measured_frames(compute, scores, settings, files.name, source, sharp.frame)
        for found, _ in frames:
            rows += found
            progress(len(rows), expected.frames)
    table = pd.DataFrame(rows)
    write_table(output / FRAMES, table)
    psnr = float(table["psnr"].mean())
    verdict = expected.verdict(psnr)
    if not expected.is_found(psnr):
        raise RunError(
            f"{verdict}. The figures of all frames stand in {output / FRAMES}; look at the version "
            "of the weights, the blurry frames and the sharp ones"
        )
    return verdict
