"""Evaluate trained weights on the test split: tables, summary, pictures, videos."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from vrtspike.data.clips.dataset import SequenceEntry, load_fitting_dataset
from vrtspike.data.raw.images import write_png
from vrtspike.data.store.reading import open_store
from vrtspike.deblurring.metrics.images import Image
from vrtspike.deblurring.metrics.metric import Metric, Score
from vrtspike.deblurring.video import video_file
from vrtspike.deblurring.visuals import comparison
from vrtspike.evaluation.measure import KEYS, measure_frame, select_metrics, sequence_means
from vrtspike.evaluation.restore import load_model, restore_frames, tiling_for
from vrtspike.evaluation.sources import FrameSource, ScaledSource, StoredSequence, resize_image
from vrtspike.evaluation.summary import summarize, write_summary_page
from vrtspike.files import atomic_path, atomic_write_text, write_json
from vrtspike.runs.published import PublishedRun

FRAMES = "frames.csv"
SEQUENCES = "sequences.csv"
SUMMARY = "summary.json"
TABLE = "table.html"
PICTURES = "pictures"
VIDEOS = "videos"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """What stays the same for all sequences of an evaluation.

    Attributes:
        restore: gives the restored frames of a clip.
        metrics: what is measured, and how.
        pictures: folder for pictures.
        videos: folder for videos; None writes none.
        error_map: whether pictures have a column with the error.
        count: called after each frame.
    """

    restore: Callable[[FrameSource], Iterator[Image]]
    metrics: dict[Metric, Score]
    pictures: Path
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
        output: folder for ``frames.csv``, ``sequences.csv``, ``summary.json``, ``table.html``,
            ``pictures/`` and, with TEST.SAVE_VIDEO, ``videos/``.
        device: where to compute.
        progress: called with the frames done and their total.
        error_map: whether pictures have a column with the error.

    Returns:
        the contents of ``summary.json``.

    Raises:
        ConfigError: if the data set was built with other bins than the model takes, or has no
            spikes and the model needs them.
        DataError: if the split, a store, or weights that a metric needs are missing.
        RunError: if the weights belong to another model.
    """
    settings = run.settings
    test, dataset = settings.TEST, load_fitting_dataset(dataset_path, settings)
    entries = dataset.split(settings.DATA.VAL_SPLIT)
    metrics = select_metrics(test.METRICS, settings.WEIGHTS.DIR, device)
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
    total = sum(entry.frames for entry in entries) * len(test.EVAL_SCALES)
    started = time.monotonic()
    with contextlib.ExitStack() as finished:
        evaluation = Evaluation(
            restore,
            metrics,
            finished.enter_context(_folder(output / PICTURES)),
            finished.enter_context(_folder(output / VIDEOS)) if test.SAVE_VIDEO else None,
            error_map,
            _counter(progress, total),
        )
        rows = [
            row
            for scale in test.EVAL_SCALES
            for entry in entries
            for row in _evaluate_sequence(evaluation, entry, scale)
        ]
    frames = pd.DataFrame(rows)
    sequences = sequence_means(frames)
    summary = summarize(run, dataset, sequences, list(metrics)) | {
        "device": device.type,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds_per_frame": (time.monotonic() - started) / total,
    }
    atomic_write_text(output / FRAMES, _csv(frames))
    atomic_write_text(output / SEQUENCES, _csv(sequences))
    write_summary_page(output / TABLE, sequences, summary, list(metrics))
    write_json(output / SUMMARY, summary)
    return summary


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6f")


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A folder that replaces ``path`` when the body has ended."""
    with atomic_path(path) as temporary:
        temporary.mkdir()
        yield temporary


def _counter(progress: Progress, total: int) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return count


def _evaluate_sequence(
    evaluation: Evaluation, entry: SequenceEntry, scale: float
) -> Iterator[dict[str, Any]]:
    """A row per frame; writes the sequence's picture and video on the way."""
    stored = StoredSequence(open_store(entry.store))
    source = stored if scale == 1 else ScaledSource(stored, scale)
    label = entry.name if scale == 1 else f"{entry.name}_x{scale:g}"
    with contextlib.ExitStack() as videos:
        append: Callable[[Sequence[Image]], None] | None = None
        if evaluation.videos is not None:
            append = videos.enter_context(video_file(evaluation.videos / f"{label}.mp4"))
        for number, restored in enumerate(evaluation.restore(source)):
            blur = source.read(slice(number, number + 1)).blur[0]
            sharp = stored.read_sharp(number)
            if scale != 1:
                sharp = resize_image(sharp, source.size)
            name = source.names[number]
            yield {
                **dict(zip(KEYS, (entry.name, name, scale), strict=True)),
                **measure_frame(evaluation.metrics, blur, restored, sharp),
            }
            if number == len(source.names) // 2:
                picture = comparison(blur, restored, sharp, error_map=evaluation.error_map)
                write_png(evaluation.pictures / f"{label}_{name}.png", picture)
            if append is not None:
                append([blur, restored, sharp])
            evaluation.count()
