"""Evaluate trained weights on the test split: tables, summary, pictures, videos."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from vrtspike.analysis.evaluation_files import EXAMPLES, PICTURES, VIDEOS
from vrtspike.deblurring.data.clips.dataset import SequenceEntry, load_fitting_dataset
from vrtspike.deblurring.data.store.reading import Store
from vrtspike.deblurring.evaluation.examples import Examples, Picture
from vrtspike.deblurring.evaluation.measure import (
    KEYS,
    ClipMeter,
    Kind,
    Scores,
    ranking_metric,
)
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS, Protocol
from vrtspike.deblurring.evaluation.restore import (
    Compute,
    load_model,
    restore_frames,
    torch_compute,
)
from vrtspike.deblurring.evaluation.sources import sharp_frame, stored_sequence
from vrtspike.deblurring.evaluation.spikes_alone import (
    RECONSTRUCTIONS,
    gray_frame,
    spikes_alone,
    to_frame,
    to_picture,
)
from vrtspike.deblurring.evaluation.summary import write_results
from vrtspike.deblurring.evaluation.tiling import Progress
from vrtspike.deblurring.rgb_images import Image, to_uint8
from vrtspike.deblurring.settings import Settings, deblurring_settings
from vrtspike.deblurring.video import video_file
from vrtspike.deblurring.visuals import comparison
from vrtspike.io.files import replaced_folder
from vrtspike.io.images import write_png
from vrtspike.runs.published import PublishedRun

Row = dict[str, Any]
"""One frame in ``frames.csv``."""


@dataclass(frozen=True)
class Evaluation:
    """What stays the same for all sequences of an evaluation.

    Attributes:
        compute: restores tiles.
        scores: what is measured by each protocol, the main one first, and how.
        settings: of the run.
        pictures: folder for pictures.
        videos: folder for videos; None writes none.
    """

    compute: Compute
    scores: Mapping[Protocol, Scores]
    settings: Settings
    pictures: Path
    videos: Path | None


def evaluate_run(
    weights: Path,
    run: PublishedRun,
    dataset_path: Path,
    output: Path,
    device: torch.device,
    progress: Progress,
) -> dict[str, Any]:
    """Restore the test split with a run's weights and write every result into ``output``.

    Args:
        weights: the run's ``weights.safetensors``.
        run: its settings and identity.
        dataset_path: manifest of the data set.
        output: folder for ``frames.csv``, ``sequences.csv``, ``summary.json``, ``metrics.html``,
            ``pictures/``, ``examples/`` and, with TEST.SAVE_VIDEO, ``videos/``.
        device: where to compute.
        progress: called with the frames done and their total, at first with 0.

    Returns:
        the contents of ``summary.json``.

    Raises:
        ConfigError: if the data set was built with other bins than the model takes, or has no
            spikes and the model needs them.
        DataError: if the split, a store, or weights that a metric needs are missing.
        RunError: if the weights belong to another model.
    """
    settings = deblurring_settings(run.settings)
    test, dataset = settings.TEST, load_fitting_dataset(dataset_path, settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    protocols, weights_dir = [PROTOCOLS[name] for name in test.PROTOCOL], Path(settings.WEIGHTS.DIR)
    for protocol in protocols:
        protocol.require_blur(dataset.blur_dir, str(dataset_path))
    scores: dict[Protocol, Scores] = {
        protocol: {m: m.load(weights_dir, device) for m in protocol.metrics(test.METRICS)}
        for protocol in protocols
    }
    model = load_model(weights, settings, device)

    compute = torch_compute(model, dataset.statistics_for(settings.DATA), device)
    started, total = time.monotonic(), sum(entry.frames for entry in entries)
    rows: list[Row] = []
    with contextlib.ExitStack() as finished:
        folder = finished.enter_context(replaced_folder(output / EXAMPLES))
        examples = Examples(folder, ranking_metric(list(scores[protocols[0]])))
        evaluation = Evaluation(
            compute,
            scores,
            settings,
            finished.enter_context(replaced_folder(output / PICTURES)),
            finished.enter_context(replaced_folder(output / VIDEOS)) if test.SAVE_VIDEO else None,
        )
        progress(0, total)
        for entry in entries:
            for number, (found, pictures) in enumerate(_evaluate_sequence(evaluation, entry)):
                examples.offer(found[0], pictures, middle=number == entry.frames // 2)
                rows += found
                progress(len(rows) // len(protocols), total)
            examples.end_sequence()
        examples.write_index()
    if not test.SAVE_VIDEO:  # those of an earlier evaluation show other frames
        shutil.rmtree(output / VIDEOS, ignore_errors=True)
    seconds = time.monotonic() - started
    return write_results(
        output,
        run,
        dataset,
        pd.DataFrame(rows),
        scores,
        device=device.type,
        parameters=sum(p.numel() for p in model.parameters()),
        seconds_per_frame=seconds / total,
    )


def _evaluate_sequence(
    evaluation: Evaluation, entry: SequenceEntry
) -> Iterator[tuple[list[Row], dict[str, Picture]]]:
    """For every frame a row per protocol, and pictures by the stem of their files.

    Writes the picture and the video of the sequence on the way. The frames pass once: protocols of
    one tiling share what is restored, and those of several are restored side by side.
    """
    meters = {protocol: ClipMeter(scores) for protocol, scores in evaluation.scores.items()}
    test, clip_len = evaluation.settings.TEST, evaluation.settings.DATA.CLIP_LEN
    tilings = {protocol: protocol.tiling(test.TILE, clip_len) for protocol in meters}
    store = Store(entry.store)
    source, main = stored_sequence(store), next(iter(meters))
    streams = {
        tiling: restore_frames(
            evaluation.compute,
            source,
            tiling,
            tiles_at_once=test.BATCH_SIZE,
            readers=test.NUM_WORKERS,
            rounded=False,
        )
        for tiling in tilings.values()
    }
    with contextlib.ExitStack() as written:
        append: Callable[[Sequence[Image]], None] | None = None
        if evaluation.videos is not None:
            append = written.enter_context(video_file(evaluation.videos / f"{entry.name}.mp4"))
        for number, frames in enumerate(zip(*streams.values(), strict=True)):
            values = dict(zip(streams, frames, strict=True))
            blur = source.read(slice(number, number + 1)).blur[0]
            restored = to_uint8(torch.from_numpy(values[tilings[main]]))
            sharp = sharp_frame(store, number)
            images: dict[Kind, Image] = {"blur": blur, "sharp": sharp}
            pictures: dict[str, Picture] = {"blurry": blur, "restored": restored, "sharp": sharp}
            if test.SPIKES_ALONE is not None and store.layout.spike_size is not None:
                seen = spikes_alone(store, RECONSTRUCTIONS[test.SPIKES_ALONE], number)
                images |= {"spikes": to_frame(seen, source.size), "gray": gray_frame(sharp)}
                pictures["spikes"] = to_picture(seen)
            rows = []
            for protocol, meter in meters.items():
                keys = (protocol.name, entry.name, source.names[number])
                image = protocol.image(values[tilings[protocol]])
                figures = meter.measure({**images, "restored": image})
                rows.append(dict(zip(KEYS, keys, strict=True)) | figures)
            if number == entry.frames // 2:
                picture = comparison(blur, restored, sharp)
                name = f"{entry.name}_{source.names[number]}.png"
                write_png(evaluation.pictures / name, picture)
            if append is not None:
                append([blur, restored, sharp])
            yield rows, pictures
