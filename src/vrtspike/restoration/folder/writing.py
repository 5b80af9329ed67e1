"""Restore a clip into a folder: frames, videos, metrics; and continue after an interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.data.raw.versions import input_version
from vrtspike.data.video import uncopied_streams
from vrtspike.io.files import write_json
from vrtspike.io.images import write_png
from vrtspike.restoration.checks.clip_check import doubts_message
from vrtspike.restoration.checks.no_reference import load_no_reference
from vrtspike.restoration.folder.frame_metrics import (
    RestoredClip,
    measure_and_write_videos,
    worse_frames_by_metric,
)
from vrtspike.restoration.folder.request import Request
from vrtspike.restoration.folder.result_record import (
    RESTORE_RECORD,
    RESTORED,
    SCHEMA,
    continued_record,
    read_earlier_record,
    recorded_results,
    remove_results,
    require_replaceable,
)
from vrtspike.restoration.inference.tiling import Tiling, recomputation, tile_unit
from vrtspike.restoration.inputs.clip_frames import Pictures, picture_files
from vrtspike.restoration.inputs.given_clip import GivenClip
from vrtspike.system.errors import list_faults, printable
from vrtspike.system.progress_bar import Progresses

if TYPE_CHECKING:
    # Only for its type: a wrong device is refused before PyTorch is imported.
    from vrtspike.restoration.loaded_model import LoadedModel, PreparedClip

NO_SPIKES = "none, the model takes none"

Note = Callable[[str], None]
"""Function called with a message for the user."""


def restore_into(
    model: LoadedModel,
    request: Request,
    source: GivenClip,
    sharp: Pictures | None,
    *,
    progress: Progresses,
    note: Note = print,
) -> dict[str, Any]:
    """Restore a clip into a folder; frames that are already in it stay.

    Repeat the call to continue after an interruption. Every frame is written as a whole or not at
    all.

    Args:
        model: model from :func:`vrtspike.restoration.trained.load`.
        request: inputs and results.
        source: blurry frames and spikes, from
            :func:`~vrtspike.restoration.folder.request.open_request`.
        sharp: the sharp frames, if any, from the same.
        progress: opens the progress of a step.
        note: called with notes and warnings for the user.

    Returns:
        the contents of ``restore.json``.

    Raises:
        ConfigError: if ``output`` holds something else.
        DataError: if an input cannot be used, or lies far outside the recordings that the model
            was trained on.
        RunError: if the memory is too small.
    """
    scores = {name: load_no_reference(name) for name in request.no_reference}
    # The request is checked completely before anything is removed or written.
    output = request.output
    identity = _identity(model, request, source)
    earlier = read_earlier_record(output / RESTORE_RECORD)
    continued: dict[str, Any] = {}
    if not request.overwrite:
        continued = continued_record(output, identity, earlier, request.tile)
    recorded = recorded_results(earlier)
    results = request.results(source.names)
    require_replaceable(output, results, recorded)
    tiling = Tiling(**continued["tiling"]) if continued else model.tiling(source, request.tile)
    clip = model.prepare(source, tiling, anyway=request.anyway)
    if request.overwrite:
        remove_results(output, recorded, note)
        recorded = []
    if request.video or request.side_by_side:
        _note_lost_parts(source, note)
    for message in clip.notes:
        note(message)
    files = [output / RESTORED / f"{name}.png" for name in source.names]
    missing = [number for number, path in enumerate(files) if not path.exists()]
    if continued:
        present = len(files) - len(missing)
        note(f"{present} of {len(files)} frames are there already, restored before")
    record = {
        **identity,
        **_clip_entries(model, request, clip),
        "seconds_per_frame": continued.get("seconds_per_frame"),
        "written": sorted({*results, *recorded}),
        "doubts": continued.get("doubts", []),
        "doubtful": continued.get("doubtful", []),
    }
    write_json(output / RESTORE_RECORD, record)
    if missing:
        record |= _doubt_entries(clip, note)
        write_json(output / RESTORE_RECORD, record)
        started = time.monotonic()
        with progress("restore, tiles") as show:
            frames = model.restore_prepared(clip, wanted=missing, progress=show)
            for number, (image, _) in zip(missing, frames, strict=True):
                write_png(files[number], image)
        record["seconds_per_frame"] = (time.monotonic() - started) / len(missing)
    restored = RestoredClip(source, sharp, files, with_spikes=not record["doubts"], scores=scores)
    record["frames"], misfits = measure_and_write_videos(request, restored, progress)
    record["verdicts"] = worse_frames_by_metric(record["frames"], clip.check)
    write_json(output / RESTORE_RECORD, record)
    if misfits:
        title = "warning: sharp frames that do not fit their blurry ones"
        advice = (
            "Compare with the sharp frames of this clip, in the same colours and levels; metrics "
            "against others say nothing."
        )
        note(list_faults(title, misfits, advice, limit=10))
    return record


def _doubt_entries(clip: PreparedClip, note: Note) -> dict[str, Any]:
    """Return the entries of ``restore.json`` on frames that their spikes do not fit."""
    doubts = list(clip.doubts.values())
    if doubts:
        note(doubts_message(doubts))
    names = [clip.source.names[number] for number in clip.doubts if number is not None]
    return {"doubts": doubts, "doubtful": names}


def _identity(model: LoadedModel, request: Request, source: GivenClip) -> dict[str, Any]:
    """Return entries of the record that are equal if frames of two calls belong together."""
    frames = picture_files(request.frames) if request.frames.is_dir() else [request.frames]
    origin = NO_SPIKES
    spike_files: Sequence[Path] = []
    sensor = None
    if source.spikes is not None:
        origin = source.spikes.origin
        spike_files = source.spikes.files
        if source.spikes.sensor is not None:
            sensor = list(source.spikes.sensor.size)
    return {
        "schema": SCHEMA,
        "model": {
            "name": model.run.name,
            "fingerprint": model.run.fingerprint,
            "weights": model.weights,
        },
        "blurry frames": input_version(frames),
        "spikes": {
            "from": origin,
            "version": input_version(spike_files),
            "layout": request.layout,
            "sensor": sensor,
        },
        "precision": model.precision,
    }


def _clip_entries(model: LoadedModel, request: Request, clip: PreparedClip) -> dict[str, Any]:
    """Return the entries of ``restore.json`` on inputs, tiles and limits."""
    source = clip.source
    shape = (len(source.names), *source.size)
    factor = recomputation(shape, clip.tiling, tile_unit(source.ratio.numerator))
    return {
        "paths": {
            "input": printable(str(request.frames)),
            "spikes": None if request.spikes is None else printable(str(request.spikes)),
            "sharp": None if request.sharp is None else printable(str(request.sharp)),
        },
        "size": list(source.size),
        "tiling": asdict(clip.tiling),
        "recomputation": round(factor, 4),
        "device": model.device.type,
        "limits": clip.check.contents(),
    }


def _note_lost_parts(source: GivenClip, note: Note) -> None:
    """Note the parts of a video file that its restored videos lack."""
    video = source.pictures.video
    if video is None:
        return
    if not video.timed:
        note(
            f"warning: {video.path}: has no usable time stamps; the restored videos have "
            f"{float(video.rate):.4g} frames per second"
        )
    streams = uncopied_streams(video.path)
    if streams:
        title = f"warning: {video.path}: streams that the restored videos lack"
        advice = "An MP4 file takes sound such as AAC: convert it first, or add it afterwards."
        note(list_faults(title, streams, advice))
