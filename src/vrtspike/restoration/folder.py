"""Restore a clip into a folder: frames, videos, figures; and go on where that was stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.gate.consistency import Consistency
from vrtspike.data.gate.frame_views import FrameView, view_picture
from vrtspike.data.raw.versions import input_version
from vrtspike.data.rgb_images import Image
from vrtspike.data.video import uncopied_streams, video_file
from vrtspike.io.files import finite_or_null, read_mapping, write_json
from vrtspike.io.images import read_picture, to_8_bit, write_png
from vrtspike.metrics.psnr import psnr
from vrtspike.metrics.ssim import ssim
from vrtspike.restoration.given_clips import GivenClip, doubts, open_clip
from vrtspike.restoration.no_reference import (
    load_no_reference,
    no_reference_figures,
    unseen_agreement,
)
from vrtspike.restoration.pictures import Pictures, folder_pictures, picture_files, require_size
from vrtspike.restoration.recording_limits import LimitCheck, check_limits, is_worse, worse_frames
from vrtspike.restoration.tiling import Progress, Tiling, recomputation, tile_unit
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.errors import ConfigError, DataError, list_faults, shown

if TYPE_CHECKING:
    from vrtspike.restoration.trained import TrainedModel

RESTORED = "restored"
VIDEO = "restored.mp4"
SIDE_BY_SIDE = "side_by_side.mp4"
RECORD = "restore.json"
MADE = (RESTORED, VIDEO, SIDE_BY_SIDE)
"""What is written beside the record."""
SCHEMA = 7
_ELSEWHERE = "give another folder"
_REPLACE = f"{_ELSEWHERE}, or --overwrite to replace what is in this one"

NO_SPIKES = "none, the model takes none"

Progresses: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""Opens the progress of a piece of work by its title."""


@dataclass(frozen=True)
class Request:
    """What shall be restored, and into which files.

    Attributes:
        frames: a folder of pictures or a video file.
        spikes: a folder or a file of recorded spikes; None for simulated ones, or none.
        simulate_spikes: simulate them from the blurry frames.
        sensor: rows and columns of recorded spikes; None as for :func:`recorded_spikes`.
        layout: name of the layout that tells exposures; None as for
            :func:`~vrtspike.restoration.given_clips.open_clip`.
        output: folder for ``restored/<frame>.png``, ``restore.json`` and what follows.
        sharp: folder that holds sharp frames of the same names, to compare with.
        video: whether to write ``restored.mp4``.
        side_by_side: whether to write ``side_by_side.mp4``: blurry, restored, sharp if given.
        tile: largest side of a tile, 0 for whole frames; None fits it to the free memory.
        overwrite: remove what the record of an earlier call in ``output`` names.
        no_reference: metrics of pyiqa that need no sharp frame.
        anyway: restore a recording far outside those that the model was trained on, too.
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
    tile: int | None = None
    overwrite: bool = False
    no_reference: Sequence[str] = ()
    anyway: bool = False


def open_request(run: RunIdentity, request: Request) -> tuple[GivenClip, Pictures | None]:
    """Check a request and open its inputs; neither the model nor PyTorch is needed for it.

    Args:
        run: that trained the model.
        request: what to do.

    Returns:
        blurry frames and spikes, and the sharp frames if there are any to compare with.

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
    return source, _open_sharp(request.sharp, source)


def restore_into(
    model: TrainedModel,
    request: Request,
    source: GivenClip,
    sharp: Pictures | None,
    *,
    progress: Progresses,
    note: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Restore a clip into a folder; frames that are there already stay.

    A call that was stopped is continued by the same call. Every frame is written as a whole or not
    at all.

    Args:
        model: from :func:`vrtspike.restoration.trained.load`.
        request: what to do.
        source: from :func:`open_request`, as the next.
        sharp: the sharp frames, if any.
        progress: shows it.
        note: is told what a user wants to know meanwhile.

    Returns:
        the contents of ``restore.json``.

    Raises:
        ConfigError: if ``output`` holds something else.
        DataError: if an input cannot be used, or lies far outside the recordings that the model
            was trained on.
        RunError: if the memory is too small.
    """
    output = request.output
    context = model.settings.DATA.CONTEXT_STEPS
    scores = {name: load_no_reference(name) for name in request.no_reference}
    record = _identity(model, request, source)
    earlier = _earlier_record(output / RECORD)
    known = {} if request.overwrite else _known_record(request, record, earlier)
    results = _results(request, source)
    _require_replaceable(output, results, _named_results(earlier))
    tiling = Tiling(**known["tiling"]) if known else model.tiling(source, request.tile)
    check = check_limits(model.limits, source)
    if not request.anyway:
        check.require_near(str(request.frames), "restore it all the same with --anyway")
    # The request has been checked by now.
    kept = _named_results(earlier)
    if request.overwrite:
        _remove_results(output, kept, note)
        kept = []
    if request.video or request.side_by_side:
        _note_lost_parts(source, note)
    if source.pictures.conversion:
        note(f"{source.pictures.place}: {source.pictures.conversion}")
    if source.pictures.bits > 8 and model.network is None:
        note("an ONNX model takes 8 bits: frames are rounded before they are restored")
    if check.is_outside:
        note(check.warning(str(request.frames)))
    files = [output / RESTORED / f"{name}.png" for name in source.names]
    missing = {n for n, path in enumerate(files) if not path.exists()}
    if known:
        count = len(files)
        note(f"{count - len(missing)} of {count} frames are there already, restored before")
    shape = (len(files), *source.size)
    record |= {
        "paths": {
            "input": shown(str(request.frames)),
            "spikes": None if request.spikes is None else shown(str(request.spikes)),
        },
        "size": list(source.size),
        "tiling": asdict(tiling),
        "recomputation": round(recomputation(shape, tiling, tile_unit(source.ratio.numerator)), 4),
        "device": model.device.type,
        "seconds_per_frame": known.get("seconds_per_frame"),
        "written": sorted({*results, *kept}),
        "doubts": known.get("doubts", []),
        "limits": check.contents(),
    }
    write_json(output / RECORD, record)
    if missing:
        record["doubts"] = doubts(source)
        if record["doubts"]:
            advice = "The frames are restored all the same; do not trust these."
            title = "warning: spikes that do not fit"
            note(list_faults(title, record["doubts"], advice, limit=10))
        write_json(output / RECORD, record)
        started = time.monotonic()
        # Spikes that do not fit the frames cannot tell which of two pictures is better.
        is_judged = check.is_outside and not record["doubts"]
        with progress("restore, tiles") as show:
            adapted = check.adapt(source)
            frames = model.restore_source(adapted, tiling, wanted=missing, progress=show)
            for number, image in zip(sorted(missing), frames, strict=True):
                if is_judged and is_worse(source, number, context, image):
                    write_png(files[number], _blurry(source.pictures, number))
                else:
                    write_png(files[number], image)
        record["seconds_per_frame"] = (time.monotonic() - started) / len(missing)
    record["frames"], doubtful = _finish(
        request,
        source,
        sharp,
        files,
        scores,
        progress,
        context=context,
        with_spikes=not record["doubts"],
    )
    record["verdicts"] = _verdicts(record["frames"], check)
    write_json(output / RECORD, record)
    if doubtful:
        title = "warning: sharp frames that do not fit their blurry ones"
        advice = (
            "Give --sharp the frames of this clip, in the same colours and levels; figures against "
            "others say nothing."
        )
        note(list_faults(title, doubtful, advice, limit=10))
    return record


def _require_apart(request: Request) -> None:
    """Refuse an input that results would be written over, or that --overwrite would remove.

    Raises:
        ConfigError: naming it.
    """
    places = [(request.output / name).resolve() for name in MADE]
    for given in (request.frames, request.spikes, request.sharp):
        if given is not None and any(given.resolve().is_relative_to(place) for place in places):
            raise ConfigError(
                f"{given}: lies where the results of {request.output} are written; give another "
                "folder for them"
            )


def _identity(model: TrainedModel, request: Request, source: GivenClip) -> dict[str, Any]:
    """What must be equal for frames of two calls to belong together."""
    frames, spikes = request.frames, source.spikes
    return {
        "schema": SCHEMA,
        "model": {
            "name": model.run.name,
            "fingerprint": model.run.fingerprint,
            "weights": model.weights,
        },
        "blurry frames": input_version(picture_files(frames) if frames.is_dir() else [frames]),
        "spikes": {
            "from": NO_SPIKES if spikes is None else spikes.origin,
            "version": input_version([] if spikes is None else spikes.files),
            "layout": request.layout,
            "sensor": spikes and spikes.sensor and [*spikes.sensor.size],
        },
        "precision": model.precision,
    }


def _earlier_record(path: Path) -> dict[str, Any]:
    """The record of an earlier call; empty where there is none.

    Raises:
        ConfigError: if the file is something else.
        RunError: if it is damaged.
    """
    if not path.is_file():
        return {}
    record = read_mapping(path, _ELSEWHERE)
    if not {"schema", "model"} <= record.keys():
        raise ConfigError(f"{path}: is no record of restored frames; {_ELSEWHERE}")
    return record


def _known_record(
    request: Request, identity: dict[str, Any], earlier: dict[str, Any]
) -> dict[str, Any]:
    """The record of an earlier call of the same run and inputs; empty where there was none.

    Raises:
        ConfigError: if the folder holds frames of something else.
    """
    path = request.output / RECORD
    if not any((request.output / RESTORED).glob("*.png")):
        return {}
    if not earlier:
        raise ConfigError(
            f"{path.with_name(RESTORED)}: holds frames restored by something else; {_ELSEWHERE}"
        )
    if differing := [name for name in identity if earlier.get(name) != identity[name]]:
        raise ConfigError(
            f"{path.with_name(RESTORED)}: holds frames restored with other "
            f"{', '.join(differing)}; {_REPLACE}"
        )
    # Frames of other tiles differ a little: a clip would have a seam in time.
    tile = earlier["tiling"]["size"]
    if request.tile not in (None, tile):
        raise ConfigError(f"{path}: found frames restored with --tile {tile}; {_REPLACE}")
    return earlier


def _results(request: Request, source: GivenClip) -> list[str]:
    """The files that a call writes beside its record, below the output folder."""
    results = [f"{RESTORED}/{name}.png" for name in source.names]
    if request.video:
        results.append(VIDEO)
    if request.side_by_side:
        results.append(SIDE_BY_SIDE)
    return results


def _named_results(record: dict[str, Any]) -> list[str]:
    """The files that a record names; nothing outside the places of results."""
    if not record:
        return []
    names = record.get("written")
    if names is None:  # of a version that recorded only the frames of a finished call
        frames = [f"{RESTORED}/{entry['frame']}.png" for entry in record.get("frames", [])]
        names = [*frames, VIDEO, SIDE_BY_SIDE]
    return [name for name in names if name in MADE or Path(name).parent == Path(RESTORED)]


def _require_replaceable(output: Path, results: Sequence[str], named: Sequence[str]) -> None:
    """Refuse to write over files that no record names.

    Raises:
        ConfigError: naming them.
    """
    foreign = [name for name in sorted({*results} - {*named}) if (output / name).exists()]
    if foreign:
        title = f"{output}: files at the places of results that its record does not name"
        advice = "Move them, or give another folder."
        raise ConfigError(list_faults(title, foreign, advice, limit=10))


def _remove_results(output: Path, named: Sequence[str], note: Callable[[str], None]) -> None:
    """Remove what a record names, and say what stays beside the new results."""
    for name in named:
        path = output / name
        if path.is_file() or path.is_symlink():
            path.unlink()
    folders = [folder for folder in (output, output / RESTORED) if folder.is_dir()]
    others = [path.relative_to(output) for folder in folders for path in folder.iterdir()]
    kept = sorted(
        str(path)
        for path in others
        if str(path) not in (RECORD, RESTORED) and not path.name.startswith(".")
    )
    if kept:
        title = f"warning: {output}: files that the record does not name stay"
        advice = "They are no results of this call; --overwrite removes only what it has written."
        note(list_faults(title, kept, advice, limit=10))


def _note_lost_parts(source: GivenClip, note: Callable[[str], None]) -> None:
    """Say which parts of a video file its restored videos lack."""
    video = source.pictures.video
    if video is None:
        return
    if not video.timed:
        note(
            f"warning: {video.path}: has no usable time stamps; the restored videos have "
            f"{float(video.rate):.4g} frames per second"
        )
    if streams := uncopied_streams(video.path):
        title = f"warning: {video.path}: streams that the restored videos lack"
        advice = "An MP4 file takes sound such as AAC: convert it first, or add it afterwards."
        note(list_faults(title, streams, advice))


def _finish(
    request: Request,
    source: GivenClip,
    sharp: Pictures | None,
    files: Sequence[Path],
    scores: Mapping[str, Callable[[Image], float]],
    progress: Progresses,
    *,
    context: int,
    with_spikes: bool,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Figures and videos of the frames on disk; and the sharp frames that do not fit.

    Args:
        request: what to do.
        source: blurry frames and spikes.
        sharp: the sharp frames, if any.
        files: the restored frames.
        scores: metrics of a frame alone.
        progress: shows it.
        context: most steps beside an exposure that the model takes.
        with_spikes: whether to compare with the spikes where there are no sharp frames; spikes
            that do not fit would give figures that look good and mean nothing.
    """
    entries, check = list[dict[str, Any]](), Consistency()
    with contextlib.ExitStack() as opened:
        show = opened.enter_context(progress("figures, videos"))
        restored_video, all_video = (
            opened.enter_context(video_file(request.output / name, like=source.pictures.video))
            if wanted
            else None
            for name, wanted in ((VIDEO, request.video), (SIDE_BY_SIDE, request.side_by_side))
        )
        for number, (name, path) in enumerate(zip(source.names, files, strict=True)):
            blur, restored = source.pictures.frame(number), to_8_bit(read_picture(path).rgb)
            images, figures, measures = [blur, restored], dict[str, Any](), dict(scores)
            if sharp is not None:
                truth = sharp.frame(number)
                images.append(truth)
                measures |= {"psnr": partial(psnr, sharp=truth), "ssim": partial(ssim, sharp=truth)}
                blurry = view_picture(source.pictures.describe(number), blur)
                check.add(FrameView(blurry, view_picture(sharp.describe(number), truth)))
            elif with_spikes and source.spikes is not None and source.spikes.frames[number].path:
                figures |= no_reference_figures(source.spikes.frames[number], blur, restored)
            if with_spikes:
                figures |= _unseen_figures(source, number, context, blur, restored)
            for metric, score in measures.items():
                figures |= {f"{metric}_blur": score(blur), metric: score(restored)}
            if restored_video is not None:
                restored_video([restored])
            if all_video is not None:
                all_video(images)
            # Equal frames have no finite PSNR.
            entries.append({"frame": name, **finite_or_null(figures)})
            show(number + 1, len(files))
    return entries, check.finish()


def _blurry(pictures: Pictures, number: int) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """One blurry frame with all its bits."""
    if pictures.read_exact is None:
        return pictures.frame(number)
    exact = pictures.read_exact(slice(number, number + 1))[0]
    return np.rint(257 * exact.astype(np.float64)).astype(np.uint16)


def _unseen_figures(
    source: GivenClip, number: int, context: int, blur: Image, restored: Image
) -> dict[str, Any]:
    """Agreement with spikes that the model has not seen, and whether the blurry frame is kept."""
    agreements = unseen_agreement(source, number, context, [blur, restored])
    if agreements is None:
        return {}
    kept = bool(np.array_equal(blur, restored))
    return {"unseen_blur": agreements[0], "unseen": agreements[1], "kept_blurry": kept}


def _verdicts(frames: Sequence[Mapping[str, Any]], check: LimitCheck) -> dict[str, list[str]]:
    """The names of frames that came out worse than the blurry ones, by what shows it."""
    verdicts: dict[str, list[str]] = {"kept blurry": []}
    if check.is_outside:
        verdicts["kept blurry"] = [frame["frame"] for frame in frames if frame.get("kept_blurry")]
    for figure in ("reblur", "unseen"):
        verdicts[figure] = [
            frame["frame"]
            for frame in frames
            if frame.get(figure) is not None
            and frame.get(f"{figure}_blur") is not None
            and frame[figure] < frame[f"{figure}_blur"]
        ]
    return verdicts


def verdict_messages(verdicts: Mapping[str, Sequence[str]]) -> list[str]:
    """Messages on the frames that came out worse than the blurry ones.

    Args:
        verdicts: of the record.
    """
    messages = []
    if verdicts["kept blurry"]:
        messages.append(worse_frames(verdicts["kept blurry"]))
    reasons = {"reblur": "blurred again", "unseen": "by spikes that the model has not seen"}
    worse: dict[str, list[str]] = {}
    for figure, reason in reasons.items():
        for name in verdicts[figure]:
            worse.setdefault(name, []).append(reason)
    if worse:
        faults = [f"{name}: {' and '.join(told)}" for name, told in worse.items()]
        title = "warning: frames that came out worse than the blurry ones"
        advice = f"{RECORD} has the figures of both; do not trust these frames."
        messages.append(list_faults(title, faults, advice, limit=10))
    return messages


def _open_sharp(folder: Path | None, source: GivenClip) -> Pictures | None:
    """The sharp frames of the blurry ones.

    Raises:
        DataError: naming the frames without one, or if they are of another size.
    """
    if folder is None:
        return None
    by_name = {path.stem: path for path in picture_files(folder)}
    if missing := [name for name in source.names if name not in by_name]:
        title, advice = f"{folder}: frames without a sharp one", "Name it as the blurry frame."
        raise DataError(list_faults(title, missing, advice, limit=10))
    sharp = folder_pictures(folder, [by_name[name] for name in source.names])
    require_size(sharp.describe(0), sharp.frame(0), source.size)
    return sharp
