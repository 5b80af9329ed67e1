"""Evaluate trained weights on the test split: tables, summary, pictures, videos."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pandas as pd

from vrtspike.analysis.evaluation_files import (
    COMPARISON_PICTURES,
    EXAMPLES,
    VIDEOS,
    EvaluationSummary,
)
from vrtspike.data.clips.dataset_manifest import SequenceEntry, load_fitting_dataset
from vrtspike.data.clips.run_statistics import read_run_statistics
from vrtspike.data.rgb_images import Image
from vrtspike.data.store.reading import Store
from vrtspike.data.video import video_writer
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.evaluation import SpikesAloneName
from vrtspike.evaluation.comparison_pictures import comparison
from vrtspike.evaluation.examples import Examples
from vrtspike.evaluation.means import ranking_metric
from vrtspike.evaluation.measure import FrameReferences, FrameRow, MetricFunctions, measured_frames
from vrtspike.evaluation.protocols import PROTOCOLS, EvaluationProtocol
from vrtspike.evaluation.summary import write_deblurring_results
from vrtspike.io.files import replaced_folder
from vrtspike.io.images import write_png
from vrtspike.monitoring.timing import Stopwatch
from vrtspike.restoration.inference.tiling import TileModel
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.spikes_alone import RECONSTRUCTIONS, spikes_alone
from vrtspike.restoration.tiled_inference import load_model, torch_tile_model
from vrtspike.runs.evaluation_job import EvaluationJob


def evaluate_run(job: EvaluationJob) -> EvaluationSummary:
    """Restore the test split with a run's weights, measure it, and write every result.

    Args:
        job: the run and the folder for ``frames.csv``, ``sequences.csv``, ``summary.json``,
            ``metrics.html``, ``pictures/``, ``examples/`` and, with TEST.SAVE_VIDEO, ``videos/``.

    Returns:
        the contents of ``summary.json``.

    Raises:
        ConfigError: if the data set was built with other bins than the model takes, or has no
            spikes and the model needs them.
        DataError: if the split or a store is missing.
        RunError: if the weights belong to another model, or the statistics beside them or weights
            that a metric needs are missing.
    """
    settings = require_deblurring_settings(job.run.settings, job.run.name)
    manifest = load_fitting_dataset(job.manifest_path, settings)
    entries = manifest.split(settings.DATA.TEST_SPLIT)
    protocols = [PROTOCOLS[name] for name in settings.TEST.PROTOCOL]
    for protocol in protocols:
        protocol.require_blur(manifest.blur_dir, str(job.manifest_path))
    weights_dir = Path(settings.WEIGHTS.DIR)
    functions_by_protocol: dict[EvaluationProtocol, MetricFunctions] = {}
    for protocol in protocols:
        metrics = protocol.metrics(settings.TEST.METRICS)
        functions_by_protocol[protocol] = {
            metric: metric.load(weights_dir, job.device) for metric in metrics
        }
    model = load_model(job.weights, settings, job.device)
    statistics = None
    if settings.MODEL.USE_SPIKE:
        statistics = read_run_statistics(job.weights.parent).voxels
    tile_model = torch_tile_model(model, statistics, job.device)
    watch = Stopwatch(job.device)
    rows = _measure_split(job, settings, entries, tile_model, functions_by_protocol, watch)
    return write_deblurring_results(
        job,
        manifest,
        pd.DataFrame(rows),
        functions_by_protocol,
        {
            "device": job.device.type,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "model_seconds_per_frame": watch.seconds / sum(entry.frames for entry in entries),
        },
    )


def _measure_split(
    job: EvaluationJob,
    settings: DeblurringSettings,
    entries: Sequence[SequenceEntry],
    tile_model: TileModel,
    functions_by_protocol: Mapping[EvaluationProtocol, MetricFunctions],
    watch: Stopwatch,
) -> list[FrameRow]:
    """Measure all sequences, write their pictures, examples and videos, and return the rows.

    Args:
        job: the folder for the results, and the progress.
        settings: settings of the run.
        entries: the sequences.
        tile_model: the model.
        functions_by_protocol: the metrics of each protocol; examples are chosen by those of the
            first.
        watch: times the model.
    """
    rows: list[FrameRow] = []
    done = 0
    total = sum(entry.frames for entry in entries)
    with ExitStack() as stack:
        pictures = stack.enter_context(replaced_folder(job.output / COMPARISON_PICTURES))
        examples_folder = stack.enter_context(replaced_folder(job.output / EXAMPLES))
        videos = None
        if settings.TEST.SAVE_VIDEO:
            videos = stack.enter_context(replaced_folder(job.output / VIDEOS))
        main_functions = next(iter(functions_by_protocol.values()))
        examples = Examples(examples_folder, ranking_metric(list(main_functions)))
        job.progress(0, total)
        for entry in entries:
            store = Store(entry.store)
            references = _stored_references(store, settings.TEST.SPIKES_ALONE)
            source = StoreClipSource(store)
            frames = measured_frames(
                entry.name, source, references, tile_model, functions_by_protocol, settings, watch
            )
            video = None if videos is None else videos / f"{entry.name}.mp4"
            for frame_rows in _save_pictures(entry, frames, pictures, examples, video):
                rows += frame_rows
                done += 1
                job.progress(done, total)
        examples.write_index()
    if videos is None and (job.output / VIDEOS).exists():
        # Videos of an earlier evaluation.
        shutil.rmtree(job.output / VIDEOS)
    return rows


def _stored_references(store: Store, method: SpikesAloneName | None) -> Iterator[FrameReferences]:
    """Read the images of a store that restored frames are compared with, frame by frame.

    Args:
        store: a sequence of the test split.
        method: TEST.SPIKES_ALONE.
    """
    for frame in range(len(store.metadata.frames)):
        spikes = None
        if method is not None and store.metadata.spike_size is not None:
            spikes = spikes_alone(store, RECONSTRUCTIONS[method], frame)
        yield FrameReferences(store.frame("blur", frame), store.frame("sharp", frame), spikes)


def _save_pictures(
    entry: SequenceEntry,
    frames: Iterable[tuple[list[FrameRow], dict[str, Image]]],
    pictures: Path,
    examples: Examples,
    video: Path | None,
) -> Iterator[list[FrameRow]]:
    """Write the pictures of a sequence frame by frame, and yield the rows of each frame.

    Args:
        entry: sequence of the test split.
        frames: its rows and pictures, from :func:`measured_frames`.
        pictures: folder for the comparison of the frame in the middle.
        examples: examples of the evaluation.
        video: the file of the video; None if none is written.
    """
    with ExitStack() as opened:
        append = None
        if video is not None:
            append = opened.enter_context(video_writer(video))
        for index, (rows, images) in enumerate(frames):
            is_middle = index == entry.frames // 2
            examples.offer(rows[0], images, middle=is_middle)
            shown = [images["blurry"], images["restored"], images["sharp"]]
            if is_middle:
                name = f"{entry.name}_{rows[0]['frame']}.png"
                write_png(pictures / name, comparison(*shown))
            if append is not None:
                append(shown)
            yield rows
    examples.end_sequence()
