"""Evaluate trained weights on the test split: tables, summary, pictures, videos."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import torch

from vrtspike.cpus import available_cpus
from vrtspike.deblurring.data.clips.dataset import (
    DatasetManifest,
    SequenceEntry,
    load_fitting_dataset,
)
from vrtspike.deblurring.data.store.reading import open_store
from vrtspike.deblurring.evaluation.examples import Example, Examples, Picture
from vrtspike.deblurring.evaluation.measure import (
    KEYS,
    Apply,
    ClipMeter,
    FrameImages,
    Kind,
    Scores,
    ranking_metric,
    require_size,
    select_metrics,
    sequence_means,
    worst_frames,
)
from vrtspike.deblurring.evaluation.restore import load_model, restore_frames, tiling_for
from vrtspike.deblurring.evaluation.sources import (
    FrameSource,
    ScaledSource,
    StoredSequence,
    resize_image,
)
from vrtspike.deblurring.evaluation.spikes_alone import (
    RECONSTRUCTIONS,
    SpikesAlone,
    gray_frame,
    to_frame,
    to_picture,
)
from vrtspike.deblurring.evaluation.summary import summarize, write_summary_page
from vrtspike.deblurring.evaluation.tiling import Progress
from vrtspike.deblurring.metrics.metric import ImageMetric
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.settings.schema import SpikesAloneName, TestSettings, deblurring_settings
from vrtspike.deblurring.video import video_file
from vrtspike.deblurring.visuals import comparison
from vrtspike.errors import ConfigError
from vrtspike.evaluation.names import (
    EXAMPLES,
    FRAMES,
    PICTURES,
    SEQUENCES,
    SUMMARY,
    TABLE,
    VIDEOS,
)
from vrtspike.files import atomic_write_text, replaced_folder, write_json
from vrtspike.images import write_png
from vrtspike.runs.published import PublishedRun

MOST_IMAGES = len(get_args(Kind))
"""Images that are compared of a frame."""


@dataclass(frozen=True)
class Evaluation:
    """What stays the same for all sequences of an evaluation.

    Attributes:
        restore: gives the restored frames of a clip.
        scores: what is measured, and how.
        apply: measures the images of a frame.
        pictures: folder for pictures.
        examples: chooses and writes examples.
        videos: folder for videos; None writes none.
        error_map: whether pictures have a column with the error.
        count: called after each frame.
    """

    restore: Callable[[FrameSource], Iterator[Image]]
    scores: Scores
    apply: Apply
    pictures: Path
    examples: Examples
    videos: Path | None
    error_map: bool
    count: Callable[[], None]


def evaluate_run(
    weights: Path,
    run: PublishedRun,
    dataset_path: Path,
    output: Path,
    device: torch.device,
    progress: Progress,
    *,
    error_map: bool = False,
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
        error_map: whether pictures have a column with the error.

    Returns:
        the contents of ``summary.json``.

    Raises:
        ConfigError: if the data set was built with other bins than the model takes, or has no
            spikes and the model needs them; or if a metric cannot measure frames so small, or files
            of two clips would have one name.
        DataError: if the split, a store, or weights that a metric needs are missing.
        RunError: if the weights belong to another model.
    """
    settings = deblurring_settings(run.settings)
    test, dataset = settings.TEST, load_fitting_dataset(dataset_path, settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    scores = select_metrics(test.METRICS, settings.WEIGHTS.DIR, device)
    total = 0
    labels: set[str] = set()
    for clip in _clips(entries, test):
        if clip.label in labels:
            raise ConfigError(
                f"TEST.EVAL_SCALES: files of {clip.sequence} at scale {clip.scale:g} would be "
                f"called {clip.label}, as those of another sequence; rename one, or leave the "
                "scale out"
            )
        labels.add(clip.label)
        require_size(scores, clip.label, clip.source.size)
        total += len(clip.source.names)
    model = load_model(weights, settings, device)
    restore = partial(
        restore_frames,
        model,
        statistics=dataset.statistics_for(settings.DATA),
        device=device,
        tiling=tiling_for(test.TILE, settings.DATA.CLIP_LEN),
        tiles_at_once=test.BATCH_SIZE,
        readers=test.NUM_WORKERS,
    )
    started = time.monotonic()
    with contextlib.ExitStack() as finished:
        pool = finished.enter_context(ThreadPoolExecutor(min(available_cpus(), MOST_IMAGES)))
        folder = finished.enter_context(replaced_folder(output / EXAMPLES))
        evaluation = Evaluation(
            restore,
            scores,
            pool.map,
            finished.enter_context(replaced_folder(output / PICTURES)),
            Examples(folder, ranking_metric(list(scores))),
            finished.enter_context(replaced_folder(output / VIDEOS)) if test.SAVE_VIDEO else None,
            error_map,
            _counter(progress, total),
        )
        rows = [row for clip in _clips(entries, test) for row in _evaluate_clip(evaluation, clip)]
        evaluation.examples.write_index()
    if not test.SAVE_VIDEO:  # those of an earlier evaluation show other frames
        shutil.rmtree(output / VIDEOS, ignore_errors=True)
    seconds = time.monotonic() - started
    facts = {
        "device": device.type,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds_per_frame": seconds / total,
    }
    return _write_tables(output, run, dataset, pd.DataFrame(rows), list(scores), facts)


def _clips(entries: Sequence[SequenceEntry], test: TestSettings) -> Iterator[_Clip]:
    """What is evaluated, opened one after the other."""
    for scale in test.EVAL_SCALES:
        for entry in entries:
            yield _Clip(entry, scale, test.SPIKES_ALONE)


def _write_tables(
    output: Path,
    run: PublishedRun,
    dataset: DatasetManifest,
    frames: pd.DataFrame,
    metrics: Sequence[ImageMetric],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the tables and the summary, and return the latter."""
    sequences = sequence_means(frames)
    summary = summarize(run, dataset, sequences, metrics)
    summary |= facts
    summary["worst"] = worst_frames(frames, summary["scale"], metrics)
    atomic_write_text(output / FRAMES, _csv(frames))
    atomic_write_text(output / SEQUENCES, _csv(sequences))
    write_summary_page(output / TABLE, sequences, summary, metrics)
    write_json(output / SUMMARY, summary)
    return summary


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6f")


def _counter(progress: Progress, total: int) -> Callable[[], None]:
    done = 0
    progress(done, total)

    def count() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return count


class _Clip:
    """One sequence at one scale: its frames, and what they are compared with."""

    def __init__(
        self, entry: SequenceEntry, scale: float, spikes_alone: SpikesAloneName | None
    ) -> None:
        store = open_store(entry.store)
        self.sequence, self.scale = entry.name, scale
        self._stored = StoredSequence(store)
        self.source = self._stored if scale == 1 else ScaledSource(self._stored, scale)
        self.label = entry.name if scale == 1 else f"{entry.name}_x{scale:g}"
        self._spikes = None
        if spikes_alone is not None and store.layout.spike_size is not None:
            self._spikes = SpikesAlone(store, RECONSTRUCTIONS[spikes_alone])

    def compared(self, number: int, restored: Image) -> tuple[FrameImages, dict[str, Picture]]:
        """What is measured of a frame, and the pictures of it by the stem of their files."""
        size = self.source.size
        blur = self.source.read(slice(number, number + 1)).blur[0]
        sharp = self._stored.read_sharp(number)
        if sharp.shape[:2] != size:
            sharp = resize_image(sharp, size)
        images: dict[Kind, Image] = {"blur": blur, "restored": restored, "sharp": sharp}
        pictures: dict[str, Picture] = {"blurry": blur, "restored": restored, "sharp": sharp}
        if self._spikes is not None:
            seen = self._spikes.read(number)
            images |= {"spikes": to_frame(seen, size), "gray": gray_frame(sharp)}
            pictures["spikes"] = to_picture(seen)
        return images, pictures


def _evaluate_clip(evaluation: Evaluation, clip: _Clip) -> Iterator[dict[str, Any]]:
    """A row per frame; writes the clip's pictures and video on the way."""
    meter, names = ClipMeter(evaluation.scores, evaluation.apply), clip.source.names
    with contextlib.ExitStack() as written:
        offer = written.enter_context(evaluation.examples.clip(clip.label, len(names)))
        append: Callable[[Sequence[Image]], None] | None = None
        if evaluation.videos is not None:
            append = written.enter_context(video_file(evaluation.videos / f"{clip.label}.mp4"))
        for number, restored in enumerate(evaluation.restore(clip.source)):
            images, pictures = clip.compared(number, restored)
            keys = (clip.sequence, names[number], clip.scale)
            row: dict[str, Any] = dict(zip(KEYS, keys, strict=True)) | meter.measure(images)
            yield row
            offer(Example(row, pictures))
            shown = [images["blur"], restored, images["sharp"]]
            if number == len(names) // 2:
                picture = comparison(*shown, error_map=evaluation.error_map)
                write_png(evaluation.pictures / f"{clip.label}_{names[number]}.png", picture)
            if append is not None:
                append(shown)
            evaluation.count()
