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
    FrameImages,
    Kind,
    Scores,
    ranking_metric,
    require_size,
    select_metrics,
)
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS, Protocol
from vrtspike.deblurring.evaluation.restore import (
    Compute,
    load_model,
    restore_frames,
    torch_compute,
)
from vrtspike.deblurring.evaluation.sources import (
    resize_image,
    scaled,
    sharp_frame,
    stored_sequence,
)
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
from vrtspike.deblurring.settings.schema import SpikesAloneName, TestSettings
from vrtspike.deblurring.video import video_file
from vrtspike.deblurring.visuals import comparison
from vrtspike.io.files import replaced_folder
from vrtspike.io.images import write_png
from vrtspike.runs.published import PublishedRun


@dataclass(frozen=True)
class Evaluation:
    """What stays the same for all sequences of an evaluation.

    Attributes:
        compute: restores tiles.
        scores: what is measured by each protocol, the main one first, and how.
        settings: of the run.
        pictures: folder for pictures.
        examples: chooses and writes examples.
        videos: folder for videos; None writes none.
    """

    compute: Compute
    scores: Mapping[Protocol, Scores]
    settings: Settings
    pictures: Path
    examples: Examples
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
            spikes and the model needs them; or if a metric cannot measure frames so small.
        DataError: if the split, a store, or weights that a metric needs are missing.
        RunError: if the weights belong to another model.
    """
    settings = deblurring_settings(run.settings)
    test, dataset = settings.TEST, load_fitting_dataset(dataset_path, settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    protocols = [PROTOCOLS[name] for name in test.PROTOCOL]
    for protocol in protocols:
        protocol.require_blur(dataset.blur_dir, str(dataset_path))
    scores = {
        protocol: select_metrics(protocol.metrics(test.METRICS), settings.WEIGHTS.DIR, device)
        for protocol in protocols
    }
    total = 0
    for clip in _clips(entries, test):
        for measured in scores.values():
            require_size(measured, clip.label, clip.source.size)
        total += len(clip.source.names)
    model = load_model(weights, settings, device)

    compute = torch_compute(model, dataset.statistics_for(settings.DATA), device)
    started = time.monotonic()
    with contextlib.ExitStack() as finished:
        folder = finished.enter_context(replaced_folder(output / EXAMPLES))
        evaluation = Evaluation(
            compute,
            scores,
            settings,
            finished.enter_context(replaced_folder(output / PICTURES)),
            Examples(folder, ranking_metric(list(scores[protocols[0]]))),
            finished.enter_context(replaced_folder(output / VIDEOS)) if test.SAVE_VIDEO else None,
        )
        rows: list[dict[str, Any]] = []
        progress(0, total)
        for clip in _clips(entries, test):
            for found in _evaluate_clip(evaluation, clip):
                rows += found
                progress(len(rows) // len(protocols), total)
        evaluation.examples.write_index()
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


def _clips(entries: Sequence[SequenceEntry], test: TestSettings) -> Iterator[_Clip]:
    """What is evaluated, opened one after the other."""
    for scale in test.EVAL_SCALES:
        for entry in entries:
            yield _Clip(entry, scale, test.SPIKES_ALONE)


class _Clip:
    """One sequence at one scale: its frames, and what they are compared with."""

    def __init__(self, entry: SequenceEntry, scale: float, method: SpikesAloneName | None) -> None:
        self._store = Store(entry.store)
        self.sequence, self.scale = entry.name, scale
        stored = stored_sequence(self._store)
        self.source = stored if scale == 1 else scaled(stored, scale)
        self.label = entry.name if scale == 1 else f"{entry.name}_x{scale:g}"
        has_spikes = self._store.layout.spike_size is not None
        self._rate = RECONSTRUCTIONS[method] if has_spikes and method is not None else None

    def compared(self, number: int, restored: Image) -> tuple[FrameImages, dict[str, Picture]]:
        """What is measured of a frame, and the pictures of it by the stem of their files."""
        size = self.source.size
        blur = self.source.read(slice(number, number + 1)).blur[0]
        sharp = sharp_frame(self._store, number)
        if sharp.shape[:2] != size:
            sharp = resize_image(sharp, size)
        images: dict[Kind, Image] = {"blur": blur, "restored": restored, "sharp": sharp}
        pictures: dict[str, Picture] = {"blurry": blur, "restored": restored, "sharp": sharp}
        if self._rate is not None:
            seen = spikes_alone(self._store, self._rate, number)
            images |= {"spikes": to_frame(seen, size), "gray": gray_frame(sharp)}
            pictures["spikes"] = to_picture(seen)
        return images, pictures


def _evaluate_clip(evaluation: Evaluation, clip: _Clip) -> Iterator[list[dict[str, Any]]]:
    """A row per protocol for every frame; writes the clip's pictures and video on the way.

    The frames pass once: protocols of one tiling share what is restored, and those of several are
    restored side by side.
    """
    meters = {protocol: ClipMeter(scores) for protocol, scores in evaluation.scores.items()}
    test, clip_len = evaluation.settings.TEST, evaluation.settings.DATA.CLIP_LEN
    tilings = {protocol: protocol.tiling(test.TILE, clip_len) for protocol in meters}
    streams = {
        tiling: restore_frames(
            evaluation.compute,
            clip.source,
            tiling,
            tiles_at_once=test.BATCH_SIZE,
            readers=test.NUM_WORKERS,
            rounded=False,
        )
        for tiling in tilings.values()
    }
    names, main = clip.source.names, next(iter(meters))
    with contextlib.ExitStack() as written:
        offer = written.enter_context(evaluation.examples.clip(clip.label, len(names)))
        append: Callable[[Sequence[Image]], None] | None = None
        if evaluation.videos is not None:
            append = written.enter_context(video_file(evaluation.videos / f"{clip.label}.mp4"))
        for number, frames in enumerate(zip(*streams.values(), strict=True)):
            restored = dict(zip(streams, frames, strict=True))
            shown_frame = to_uint8(torch.from_numpy(restored[tilings[main]]))
            images, pictures = clip.compared(number, shown_frame)
            rows = []
            for protocol, meter in meters.items():
                keys = (protocol.name, clip.sequence, names[number], clip.scale)
                row: dict[str, Any] = dict(zip(KEYS, keys, strict=True))
                image = protocol.image(restored[tilings[protocol]])
                rows.append(row | meter.measure({**images, "restored": image}))
            offer(rows[0], pictures)
            shown = [images["blur"], shown_frame, images["sharp"]]
            if number == len(names) // 2:
                picture = comparison(*shown)
                write_png(evaluation.pictures / f"{clip.label}_{names[number]}.png", picture)
            if append is not None:
                append(shown)
            yield rows
