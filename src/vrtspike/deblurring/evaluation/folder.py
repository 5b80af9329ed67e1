"""Restore a clip into a folder: frames, videos, figures; and go on where that was stopped."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vrtspike.deblurring.data.gate.consistency import (
    Consistency,
    FrameView,
    gray,
    view_picture,
)
from vrtspike.deblurring.data.raw.versions import input_version
from vrtspike.deblurring.evaluation.given_clips import BlurrySequence, FolderSequence, open_clip
from vrtspike.deblurring.evaluation.no_reference import load_no_reference, no_reference_figures
from vrtspike.deblurring.evaluation.pictures import picture_files
from vrtspike.deblurring.evaluation.tiling import Progress, Tiling, recomputation, tile_unit
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.metrics.ssim import ssim
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.video import FRAMES_PER_SECOND, video_file, video_rate
from vrtspike.deblurring.visuals import comparison
from vrtspike.errors import ConfigError, DataError, list_faults
from vrtspike.io.files import finite_or_null, read_json, write_json
from vrtspike.io.images import read_rgb, write_png
from vrtspike.runs.identity import RunIdentity

if TYPE_CHECKING:
    from vrtspike.deblurring.evaluation.trained import ClipModel

RESTORED = "restored"
COMPARISON = "comparison"
VIDEO = "restored.mp4"
SIDE_BY_SIDE = "side_by_side.mp4"
RECORD = "restore.json"
SCHEMA = 3

NO_SPIKES = "none, the model takes none"
SIMULATED = "simulated from the blurry frames: they hold no more than the frames do"

_DIFFERENCES = {
    "schema": "another version of this program",
    "run": "another model",
    "input": "other blurry frames",
    "spikes": "other spikes",
    "precision": "another precision",
}
"""What a part of the record that differs means."""

Progresses: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""Opens the progress of a piece of work by its title."""


@dataclass(frozen=True)
class Request:
    """What shall be restored, and into which files.

    Attributes:
        frames: a folder of pictures or a video file.
        spikes: a folder or a file of recorded spikes; None for simulated ones, or none.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of recorded spikes; None as for :class:`FolderSequence`.
        layout: name of the layout that tells exposures; None as for
            :func:`~vrtspike.deblurring.evaluation.given_clips.open_clip`.
        output: folder for ``restored/<frame>.png``, ``restore.json`` and what follows.
        sharp: folder that holds sharp frames of the same names, to compare with.
        video: whether to write ``restored.mp4``.
        side_by_side: whether to write ``side_by_side.mp4``: blurry, restored and, where all frames
            have one, sharp.
        pictures: whether to write ``comparison/<frame>.png``.
        fps: frames per second of videos; None is that of the input, 24 for a folder.
        tile: largest side of a tile, 0 for whole frames; None fits it to the free memory.
        overwrite: remove what an earlier call has left in ``output``.
        no_reference: metrics of pyiqa that need no sharp frame.
    """

    frames: Path
    output: Path
    spikes: Path | None = None
    simulate_spikes: bool = False
    sensor: tuple[int, int] | None = None
    layout: str | None = None
    sharp: Path | None = None
    video: bool = False
    side_by_side: bool = False
    pictures: bool = False
    fps: Fraction | None = None
    tile: int | None = None
    overwrite: bool = False
    no_reference: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clip:
    """A request whose inputs were found to fit each other and the model.

    Attributes:
        request: what shall be made.
        source: blurry frames and spikes.
        sharp: the file of the sharp frame of each blurry one that has one.
    """

    request: Request
    source: BlurrySequence
    sharp: list[Path | None]


def open_request(run: RunIdentity, request: Request) -> Clip:
    """Check a request and open its inputs; neither the model nor PyTorch is needed for it.

    Args:
        run: that trained the model.
        request: what to do.

    Raises:
        ConfigError: if an input lies where results go, or the model takes other spikes.
        DataError: if an input cannot be used.
    """
    _require_apart(request)
    source = open_clip(
        run,
        request.frames,
        request.spikes,
        simulate_spikes=request.simulate_spikes,
        sensor=request.sensor,
        layout=request.layout,
    )
    return Clip(request, source, _sharp_files(request.sharp, source))


def restore_into(
    model: ClipModel,
    clip: Clip,
    *,
    progress: Progresses,
    note: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Restore a clip into a folder; frames that are there already stay.

    A call that was stopped is continued by the same call. Every frame is written as a whole or not
    at all.

    Args:
        model: from :func:`vrtspike.deblurring.evaluation.trained.load`.
        clip: from :func:`open_request`.
        progress: shows it.
        note: is told what a user wants to know meanwhile.

    Returns:
        the contents of ``restore.json``.

    Raises:
        ConfigError: if ``output`` holds something else.
        DataError: if an input cannot be used.
        RunError: if the memory is too small.
    """
    request, source = clip.request, clip.source
    scores = {name: load_no_reference(name) for name in request.no_reference}
    record = _identity(model, source, request)
    if request.overwrite:
        _clear(request.output)
    known = _known_record(request.output, record)
    files = restored_files(request.output, source)
    missing = {n for n, path in enumerate(files) if not path.exists()}
    if known is None or len(missing) == len(files):
        known = {}
        tiling = model.tiling(source, request.tile)
    else:
        tiling = _known_tiling(known, request)
        note(
            f"{len(files) - len(missing)} of {len(files)} frames are there already, restored before"
        )
    record |= _description(model, source, tiling, request)
    write_json(request.output / RECORD, record | {"status": "begun"})
    _tell_doubts(clip, missing, note)
    record["seconds_per_frame"] = known.get("seconds_per_frame")
    if missing:
        record["seconds_per_frame"] = _restore(model, source, tiling, files, missing, progress)
    record["frames"] = _finish(clip, scores, progress)
    record["status"] = "finished"
    write_json(request.output / RECORD, record)
    return record


def _require_apart(request: Request) -> None:
    """Refuse an input that results would be written over, or that --overwrite would remove.

    Raises:
        ConfigError: naming it.
    """
    made = (RESTORED, COMPARISON, VIDEO, SIDE_BY_SIDE)
    places = [(request.output / name).resolve() for name in made]
    for given in (request.frames, request.spikes, request.sharp):
        if given is not None and any(given.resolve().is_relative_to(place) for place in places):
            raise ConfigError(
                f"{given}: lies where the results of {request.output} are written; give another "
                "folder for them"
            )


def restored_files(output: Path, source: BlurrySequence) -> list[Path]:
    """Where each restored frame stands."""
    return [output / RESTORED / f"{name}.png" for name in source.names]


def _identity(model: ClipModel, source: BlurrySequence, request: Request) -> dict[str, Any]:
    """What must be equal for frames of two calls to belong together."""
    spikes: dict[str, Any] = {"from": NO_SPIKES, "version": None}
    if request.simulate_spikes:
        spikes["from"] = SIMULATED
    elif isinstance(source, FolderSequence):
        spikes = {"from": "recorded", "version": input_version(source.all_files)}
    return {
        "schema": SCHEMA,
        "run": {
            "name": model.run.name,
            "fingerprint": model.run.fingerprint,
            "weights": model.weights,
        },
        "input": {"version": input_version(_input_files(request.frames))},
        "spikes": spikes
        | {"layout": request.layout, "sensor": request.sensor and list(request.sensor)},
        "precision": model.precision,
    }


def _input_files(frames: Path) -> list[Path]:
    return picture_files(frames) if frames.is_dir() else [frames]


def _description(
    model: ClipModel, source: BlurrySequence, tiling: Tiling, request: Request
) -> dict[str, Any]:
    """What else the record tells of how frames were restored."""
    shape = (len(source.names), *source.size)
    return {
        "paths": {
            "input": str(request.frames),
            "spikes": None if request.spikes is None else str(request.spikes),
        },
        "size": list(source.size),
        "tile": tiling.size,
        "overlap": tiling.overlap,
        "window": tiling.frames,
        "window_overlap": tiling.frames_overlap,
        "recomputation": round(recomputation(shape, tiling, tile_unit(source.ratio.numerator)), 4),
        "device": model.device.type,
    }


def _known_record(output: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
    """The record of an earlier call of the same run and inputs; None where there was none.

    Raises:
        ConfigError: if the folder holds frames of something else.
    """
    path, advice = (
        output / RECORD,
        "give another folder, or --overwrite to replace what is in this one",
    )
    if not any((output / RESTORED).glob("*.png")):
        return None
    if not path.is_file():
        raise ConfigError(
            f"{output / RESTORED}: holds pictures, and no {RECORD} tells what they are; {advice}"
        )
    try:
        known = read_json(path)
        differing = [name for name in identity if known.get(name) != identity[name]]
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged, or of another program ({error}); {advice}") from error
    if differing:
        others = ", ".join(_DIFFERENCES[name] for name in differing)
        raise ConfigError(f"{output}: holds frames restored with {others} ({path.name}); {advice}")
    record: dict[str, Any] = known
    return record


def _known_tiling(known: Mapping[str, Any], request: Request) -> Tiling:
    """The tiling of an earlier call, which the frames still to come shall share.

    Raises:
        ConfigError: if another one is asked for.
    """
    if request.tile is not None and request.tile != known["tile"]:
        raise ConfigError(
            f"{request.output}: frames in it were restored with --tile {known['tile']}; leave "
            f"--tile {request.tile} out, or give --overwrite"
        )
    return recorded_tiling(known)


def recorded_tiling(record: Mapping[str, Any]) -> Tiling:
    """How a clip was cut, by its ``restore.json``."""
    return Tiling(record["tile"], record["overlap"], record["window"], record["window_overlap"])


def _clear(output: Path) -> None:
    """Remove what this program writes, and nothing else."""
    for name in (RESTORED, COMPARISON):
        if (output / name).is_dir():
            shutil.rmtree(output / name)
    for name in (RECORD, VIDEO, SIDE_BY_SIDE):
        (output / name).unlink(missing_ok=True)


def _tell_doubts(clip: Clip, missing: Collection[int], note: Callable[[str], None]) -> None:
    """Warn of spikes and of sharp frames that do not show what the blurry frames show."""
    if missing and isinstance(clip.source, FolderSequence) and (doubts := clip.source.doubts()):
        advice = "The frames are restored all the same; do not trust these."
        note(list_faults("warning: spikes that do not fit", doubts, advice, limit=10))
    check = Consistency()
    for number, path in enumerate(clip.sharp):
        if path is not None:
            pictures, place = clip.source.pictures, clip.source.pictures.describe(number)
            blur = view_picture(place, gray(pictures.read(slice(number, number + 1))[0]))
            check.add(FrameView(blur, view_picture(str(path), gray(read_rgb(path)))))
    if doubts := check.finish():
        title = "warning: sharp frames that do not fit their blurry ones"
        advice = (
            "Give --sharp the frames of this clip; figures against those of another say nothing."
        )
        note(list_faults(title, doubts, advice, limit=10))


def _restore(
    model: ClipModel,
    source: BlurrySequence,
    tiling: Tiling,
    files: Sequence[Path],
    missing: set[int],
    progress: Progresses,
) -> float:
    """Restore the missing frames; returns the seconds that each took."""
    started = time.monotonic()
    with progress("restore, tiles") as show:
        frames = model.restore_source(source, tiling, wanted=missing, progress=show)
        for number, image in zip(sorted(missing), frames, strict=True):
            write_png(files[number], image)
    return (time.monotonic() - started) / len(missing)


def _finish(
    clip: Clip, scores: Mapping[str, Callable[[Image], float]], progress: Progresses
) -> list[dict[str, Any]]:
    """Figures of every frame, and what else shall be made of the frames on disk."""
    request, source = clip.request, clip.source
    entries = []
    with contextlib.ExitStack() as opened:
        writers = _video_writers(request, all(clip.sharp), opened)
        show = opened.enter_context(progress("figures, videos"))
        for number, path in enumerate(restored_files(request.output, source)):
            name = source.names[number]
            entry: dict[str, Any] = {"frame": name}
            sharp = None if (file := clip.sharp[number]) is None else read_rgb(file)
            recorded = source if isinstance(source, FolderSequence) else None
            if sharp is not None or recorded or scores or writers or request.pictures:
                blur = source.pictures.read(slice(number, number + 1))[0]
                restored = read_rgb(path)
                if sharp is not None:
                    figures = {
                        "psnr_blur": psnr(blur, sharp),
                        "psnr": psnr(restored, sharp),
                        "ssim_blur": ssim(blur, sharp),
                        "ssim": ssim(restored, sharp),
                    }
                    entry |= finite_or_null(figures)  # equal frames have no finite PSNR
                elif recorded is not None:
                    entry |= no_reference_figures(recorded, number, blur, restored)
                for each, score in scores.items():
                    entry |= {f"{each}_blur": score(blur), each: score(restored)}
                for append in writers:
                    append(blur, restored, sharp)
                if request.pictures:
                    picture = comparison(blur, restored, sharp)
                    write_png(request.output / COMPARISON / f"{name}.png", picture)
            entries.append(entry)
            show(number + 1, len(source.names))
    return entries


Append = Callable[[Image, Image, Image | None], None]


def _video_writers(request: Request, all_sharp: bool, opened: contextlib.ExitStack) -> list[Append]:
    """A function for each video that appends blurry, restored and sharp frame."""
    fps = request.fps
    if fps is None:
        fps = Fraction(FRAMES_PER_SECOND) if request.frames.is_dir() else video_rate(request.frames)
    writers: list[Append] = []
    if request.video:
        alone = opened.enter_context(video_file(request.output / VIDEO, fps))
        writers.append(lambda blur, restored, sharp: alone([restored]))
    if request.side_by_side:
        beside = opened.enter_context(video_file(request.output / SIDE_BY_SIDE, fps))

        def append(blur: Image, restored: Image, sharp: Image | None) -> None:
            beside([blur, restored, *([sharp] if sharp is not None and all_sharp else [])])

        writers.append(append)
    return writers


def _sharp_files(folder: Path | None, source: BlurrySequence) -> list[Path | None]:
    """The sharp frame of each frame that has one.

    Raises:
        DataError: if no frame has one, or one is of another size.
    """
    if folder is None:
        return [None] * len(source.names)
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; expected sharp frames of the blurry ones' names"
        )
    by_name = {path.stem: path for path in picture_files(folder)}
    found = [by_name.get(name) for name in source.names]
    if not any(found):
        raise DataError(
            f"{folder}: no frame has the name of a blurry one, such as {source.names[0]}; name "
            "sharp frames as their blurry ones, or leave --sharp out"
        )
    faults = []
    for path in found:
        if path is not None and (size := read_rgb(path).shape[:2]) != source.size:
            faults.append(f"{path}: {size[0]} x {size[1]} pixels")
    if faults:
        advice = (
            f"Expected {source.size[0]} x {source.size[1]} as the blurry frames; give sharp frames "
            "of that size, or leave --sharp out."
        )
        raise DataError(list_faults(f"{folder}: frames of another size", faults, advice, limit=10))
    return found


def mean_figure(frames: list[dict[str, Any]], name: str) -> float | None:
    """Mean of a figure over the frames that have one; None where none has.

    >>> mean_figure([{"psnr": 30.0}, {"psnr": None}, {}], "psnr")
    30.0
    """
    values = [frame[name] for frame in frames if frame.get(name) is not None]
    return math.fsum(values) / len(values) if values else None
