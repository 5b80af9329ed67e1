"""Restore a clip into a folder: frames, videos, figures; and go on where that was stopped."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.raw.folders import input_version
from vrtspike.deblurring.evaluation.pictures import picture_files
from vrtspike.deblurring.evaluation.restore import tile_unit
from vrtspike.deblurring.evaluation.sources import BlurrySequence, FolderSequence
from vrtspike.deblurring.evaluation.tiling import Progress, Tiling, recomputation
from vrtspike.deblurring.evaluation.trained import TrainedModel
from vrtspike.deblurring.metrics.psnr import psnr
from vrtspike.deblurring.metrics.ssim import ssim
from vrtspike.deblurring.rgb_images import Image
from vrtspike.deblurring.video import FRAMES_PER_SECOND, video_file, video_rate
from vrtspike.deblurring.visuals import comparison
from vrtspike.errors import ConfigError, DataError, list_faults
from vrtspike.files import finite_or_null, read_json, write_json
from vrtspike.images import read_rgb, write_png

RESTORED = "restored"
COMPARISON = "comparison"
VIDEO = "restored.mp4"
SIDE_BY_SIDE = "side_by_side.mp4"
RECORD = "restore.json"
SCHEMA = 2

NO_SPIKES = "none, the model takes none"
SIMULATED = "simulated from the blurry frames: they hold no more than the frames do"

_OTHERS = {
    "schema": "another version of this program",
    "run": "another model",
    "input": "other blurry frames",
    "spikes": "other spikes",
    "precision": "another precision",
}
"""What a part of the record that differs means."""

Progresses = Callable[[str], AbstractContextManager[Progress]]
"""Opens the progress of a piece of work by its title."""


@dataclass(frozen=True)
class Order:
    """What shall be restored, and what shall be made of it.

    Attributes:
        frames: a folder of pictures or a video file.
        spikes: a folder or a file of recorded spikes; None for simulated ones, or none.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of recorded spikes; None as for :class:`FolderSequence`.
        output: folder for ``restored/<frame>.png``, ``restore.json`` and what follows.
        sharp: folder that holds sharp frames of the same names, to compare with.
        video: whether to write ``restored.mp4``.
        side_by_side: whether to write ``side_by_side.mp4``: blurry, restored and, where all frames
            have one, sharp.
        pictures: whether to write ``comparison/<frame>.png``.
        fps: frames per second of videos; None is that of the input, 24 for a folder.
        tile: largest side of a tile, 0 for whole frames; None fits it to the free memory.
        anew: remove what an earlier call has left in ``output``.
    """

    frames: Path
    output: Path
    spikes: Path | None = None
    simulate_spikes: bool = False
    sensor: tuple[int, int] | None = None
    sharp: Path | None = None
    video: bool = False
    side_by_side: bool = False
    pictures: bool = False
    fps: Fraction | None = None
    tile: int | None = None
    anew: bool = False


def restore_into(
    model: TrainedModel,
    order: Order,
    *,
    progress: Progresses,
    note: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Restore a clip into a folder; frames that are there already stay.

    A call that was stopped is continued by the same call. Every frame is written as a whole or not
    at all.

    Args:
        model: from :func:`vrtspike.deblurring.evaluation.trained.load`.
        order: what to do.
        progress: shows it.
        note: is told what a user wants to know meanwhile.

    Returns:
        the contents of ``restore.json``.

    Raises:
        ConfigError: if ``output`` holds something else or an input lies where results go, or the
            model takes other spikes.
        DataError: if an input cannot be used.
        RunError: if the memory is too small.
    """
    _require_apart(order)
    source = model.open_source(
        order.frames, order.spikes, simulate_spikes=order.simulate_spikes, sensor=order.sensor
    )
    truth = _sharp_files(order.sharp, source)
    record = _identity(model, source, order)
    if order.anew:
        _clear(order.output)
    known = _known_record(order.output, record)
    missing = {
        n for n, path in enumerate(restored_files(order.output, source)) if not path.exists()
    }
    if known is None or len(missing) == len(source.names):
        known = None
        tiling = model.tiling(source, order.tile)
    else:
        tiling = _known_tiling(known, model, order)
        done = len(source.names) - len(missing)
        note(f"{done} of {len(source.names)} frames are there already, restored before")
    record |= _description(model, source, tiling, order)
    write_json(order.output / RECORD, record | {"status": "begun"})
    if missing:
        _check_doubts(source, note)
        record["seconds_per_frame"] = _restore(
            model, source, tiling, order.output, missing, progress
        )
    else:
        record["seconds_per_frame"] = None if known is None else known.get("seconds_per_frame")
    record["frames"] = _finish(order, source, truth, progress)
    write_json(order.output / RECORD, record | {"status": "finished"})
    return record | {"status": "finished"}


def _require_apart(order: Order) -> None:
    """Refuse an input that results would be written over, or that --anew would remove.

    Raises:
        ConfigError: naming it.
    """
    made = (RESTORED, COMPARISON, VIDEO, SIDE_BY_SIDE)
    places = [(order.output / name).resolve() for name in made]
    for given in (order.frames, order.spikes, order.sharp):
        if given is not None and any(given.resolve().is_relative_to(place) for place in places):
            raise ConfigError(
                f"{given}: lies where the results of {order.output} are written; give another "
                "folder for them"
            )


def restored_files(output: Path, source: BlurrySequence) -> list[Path]:
    """Where each restored frame stands."""
    return [output / RESTORED / f"{name}.png" for name in source.names]


def _identity(model: TrainedModel, source: BlurrySequence, order: Order) -> dict[str, Any]:
    """What must be equal for frames of two calls to belong together."""
    spikes: dict[str, Any] = {"from": NO_SPIKES, "version": None}
    if order.simulate_spikes:
        spikes["from"] = SIMULATED
    elif isinstance(source, FolderSequence):
        spikes = {"from": "recorded", "version": input_version(source.files)}
    return {
        "schema": SCHEMA,
        "run": {
            "name": model.run.name,
            "fingerprint": model.run.fingerprint,
            "weights": model.weights,
        },
        "input": {"version": input_version(_input_files(order.frames))},
        "spikes": spikes | {"sensor": None if order.sensor is None else list(order.sensor)},
        "precision": model.precision,
    }


def _input_files(frames: Path) -> list[Path]:
    return picture_files(frames) if frames.is_dir() else [frames]


def _description(
    model: TrainedModel, source: BlurrySequence, tiling: Tiling, order: Order
) -> dict[str, Any]:
    """What else the record tells of how frames were restored."""
    shape = (len(source.names), *source.size)
    return {
        "paths": {
            "input": str(order.frames),
            "spikes": None if order.spikes is None else str(order.spikes),
        },
        "size": list(source.size),
        "tile": tiling.size,
        "overlap": tiling.overlap,
        "window": tiling.frames,
        "window_overlap": tiling.frames_overlap,
        "recomputation": round(recomputation(shape, tiling, tile_unit(source.ratio)), 4),
        "device": model.device.type,
    }


def _known_record(output: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
    """The record of an earlier call of the same run and inputs; None where there was none.

    Raises:
        ConfigError: if the folder holds frames of something else.
    """
    path, advice = output / RECORD, "give another folder, or --anew to replace what is in this one"
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
        others = ", ".join(_OTHERS[name] for name in differing)
        raise ConfigError(f"{output}: holds frames restored with {others} ({path.name}); {advice}")
    record: dict[str, Any] = known
    return record


def _known_tiling(known: dict[str, Any], model: TrainedModel, order: Order) -> Tiling:
    """The tiling of an earlier call, which the frames still to come shall share.

    Raises:
        ConfigError: if another one is asked for.
    """
    if order.tile is not None and order.tile != known["tile"]:
        raise ConfigError(
            f"{order.output}: frames in it were restored with --tile {known['tile']}; leave "
            f"--tile {order.tile} out, or give --anew"
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


def _check_doubts(source: BlurrySequence, note: Callable[[str], None]) -> None:
    doubts = source.doubts() if isinstance(source, FolderSequence) else []
    if doubts:
        advice = "The frames are restored all the same; do not trust these."
        note(list_faults("warning: spikes that do not fit", doubts, advice, limit=10))


def _restore(
    model: TrainedModel,
    source: BlurrySequence,
    tiling: Tiling,
    output: Path,
    missing: set[int],
    progress: Progresses,
) -> float:
    """Restore the missing frames; returns the seconds that each took."""
    files = restored_files(output, source)
    started = time.monotonic()
    with progress("restore, tiles") as show:
        frames = model.restore_source(source, tiling, wanted=missing, progress=show)
        for number, image in zip(sorted(missing), frames, strict=True):
            write_png(files[number], image)
    return (time.monotonic() - started) / len(missing)


def _finish(
    order: Order, source: BlurrySequence, truth: list[Path | None], progress: Progresses
) -> list[dict[str, Any]]:
    """Figures of every frame, and what else shall be made of the frames on disk."""
    entries = []
    with contextlib.ExitStack() as opened:
        writers = _video_writers(order, all(truth), opened)
        show = opened.enter_context(progress("figures, videos"))
        for number, path in enumerate(restored_files(order.output, source)):
            name = source.names[number]
            entry: dict[str, Any] = {"frame": name}
            sharp = None if (file := truth[number]) is None else read_rgb(file)
            if sharp is not None or writers or order.pictures:
                blur = source.pictures.read(slice(number, number + 1))[0]
                restored = read_rgb(path)
                entry |= _figures(blur, restored, sharp)
                for append in writers:
                    append(blur, restored, sharp)
                if order.pictures:
                    picture = comparison(blur, restored, sharp)
                    write_png(order.output / COMPARISON / f"{name}.png", picture)
            entries.append(entry)
            show(number + 1, len(source.names))
    return entries


Append = Callable[[Image, Image, Image | None], None]


def _video_writers(order: Order, all_sharp: bool, opened: contextlib.ExitStack) -> list[Append]:
    """A function for each video that appends blurry, restored and sharp frame."""
    fps = order.fps
    if fps is None:
        fps = Fraction(FRAMES_PER_SECOND) if order.frames.is_dir() else video_rate(order.frames)
    writers: list[Append] = []
    if order.video:
        alone = opened.enter_context(video_file(order.output / VIDEO, fps))
        writers.append(lambda blur, restored, sharp: alone([restored]))
    if order.side_by_side:
        beside = opened.enter_context(video_file(order.output / SIDE_BY_SIDE, fps))

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


def _figures(blur: Image, restored: Image, sharp: Image | None) -> dict[str, float | None]:
    """Figures of one frame; null where a frame equals the sharp one and there is no finite one."""
    if sharp is None:
        return {}
    figures: dict[str, float | None] = finite_or_null(
        {
            "psnr_blur": psnr(blur, sharp),
            "psnr": psnr(restored, sharp),
            "ssim_blur": ssim(blur, sharp),
            "ssim": ssim(restored, sharp),
        }
    )
    return figures


def mean_figure(frames: list[dict[str, Any]], name: str) -> float | None:
    """Mean of a figure over the frames that have one; None where none has.

    >>> mean_figure([{"psnr": 30.0}, {"psnr": None}, {}], "psnr")
    30.0
    """
    values = [frame[name] for frame in frames if frame.get(name) is not None]
    return math.fsum(values) / len(values) if values else None
