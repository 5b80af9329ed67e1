"""Pictures of the page of restored frames, in files beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrtspike.data.rgb_images import Image
from vrtspike.io.images import read_picture, to_8_bit
from vrtspike.reporting.pictures import (
    THUMBNAIL,
    Picture,
    coloured,
    encode_webp,
    encode_within,
    error_map,
)
from vrtspike.restoration.checks.no_reference import reblur_residual
from vrtspike.restoration.folder.figures import RestoredClip
from vrtspike.restoration.folder.result_record import PAGE_PICTURES, remove_page_pictures
from vrtspike.restoration.inputs.clip_spikes import ClipSpikes
from vrtspike.restoration.page.gallery import TOPS
from vrtspike.restoration.spikes_alone import instant_picture
from vrtspike.system.errors import DataError

LEVELS = ((1280, 80), (1280, 64), (960, 60), (800, 56), (640, 54), (520, 50), (400, 44))
"""Longest side in pixels and quality of WebP, from the best to the smallest."""
SMALL = frozenset({"spikes", "error", "difference", "residual"})
"""Kinds of pictures with half the side and quality: they are shown small beside the others."""
MAX_FRAMES = 1_000
"""Largest number of frames with pictures; of a longer clip they are chosen evenly."""


@dataclass(frozen=True)
class PagePictures:
    """The written pictures.

    Attributes:
        form: their format, in words.
        files: names of files by number of the frame, for each model by kind: ``blurry``,
            ``restored``, ``difference`` and ``thumbnail``; ``spikes``, ``residual``, ``sharp`` and
            ``error`` where there are any.
    """

    form: str
    files: Mapping[int, Sequence[Mapping[str, str]]]


def write_page_pictures(
    clips: Sequence[RestoredClip], frames: Sequence[int], budget: int, output: Path
) -> PagePictures:
    """Write the pictures of frames at the best of :data:`LEVELS` that fits into a size limit.

    Pictures of an earlier call are replaced.

    Args:
        clips: the clip as restored by each model.
        frames: numbers of the frames.
        budget: bytes of all pictures together.
        output: folder of the page.
    """

    def encode(place: int, side: int, quality: int) -> dict[str, bytes]:
        return _encode(clips, frames[place], side, quality)

    form, encoded = encode_within(encode, len(frames), budget, LEVELS)
    remove_page_pictures(output)
    folder = output / PAGE_PICTURES
    folder.mkdir(exist_ok=True)
    files: dict[int, list[dict[str, str]]] = {}
    for place, pictures in encoded.items():
        number = frames[place]
        # Single pictures are not written atomically: the page, which names them, is written after
        # all of them.
        for name, contents in pictures.items():
            (folder / _file_name(number, name)).write_bytes(contents)
        files[number] = [_files_of(number, model, pictures) for model in range(len(clips))]
    return PagePictures(form, files)


def choose_frames(count: int, doubtful: Collection[int], limit: int = MAX_FRAMES) -> list[int]:
    """Return the numbers of the frames with pictures, in order.

    Args:
        count: number of frames of the clip.
        doubtful: numbers of the frames in doubt, which come first.
        limit: largest number of frames with pictures.

    >>> choose_frames(4, [2])
    [0, 1, 2, 3]
    >>> choose_frames(9, [2, 3], limit=4)
    [0, 2, 3, 8]
    """
    if count <= limit:
        return list(range(count))
    first = _spread(sorted(doubtful), limit)
    others = [number for number in range(count) if number not in set(doubtful)]
    return sorted([*first, *_spread(others, limit - len(first))])


def _spread(numbers: Sequence[int], limit: int) -> list[int]:
    """Return up to ``limit`` numbers, evenly spaced, with the first and the last."""
    if len(numbers) <= limit:
        return list(numbers)
    places = np.linspace(0, len(numbers) - 1, limit).astype(int).tolist()
    return [numbers[place] for place in places]


def _file_name(number: int, name: str) -> str:
    return f"{number + 1:06d}_{name}.webp"


def _files_of(number: int, model: int, pictures: Collection[str]) -> dict[str, str]:
    """Return the files of a model's pictures by kind, with those that all models share."""
    files = {}
    for name in pictures:
        kind, _, owner = name.partition("-")
        if owner in ("", str(model)):
            files[kind] = _file_name(number, name)
    return files


def _encode(
    clips: Sequence[RestoredClip], number: int, side: int, quality: int
) -> dict[str, bytes]:
    """Encode the pictures of a frame; the names of those of a model end in its place."""
    encoded = {}
    for name, picture in frame_pictures(clips, number).items():
        kind = name.partition("-")[0]
        if kind in SMALL:
            encoded[name] = encode_webp(picture, side // 2, quality // 2)
        else:
            encoded[name] = encode_webp(picture, side, quality)
        if kind == "restored":
            encoded[name.replace(kind, "thumbnail")] = encode_webp(picture, *THUMBNAIL)
    return encoded


def frame_pictures(clips: Sequence[RestoredClip], number: int) -> dict[str, Picture]:
    """Return the pictures of a frame.

    Args:
        clips: the clip as restored by each model.
        number: number of the frame.

    Returns:
        uint8 by name: ``blurry``, ``sharp`` and ``spikes``; and of each model ``restored-0``,
        ``difference-0``, ``residual-0``, ``error-0`` (1 for the second).
    """
    source = clips[0].source
    blur = source.pictures.frame(number)
    truth = None if clips[0].sharp is None else clips[0].sharp.frame(number)
    pictures: dict[str, Picture] = {"blurry": blur}
    if truth is not None:
        pictures["sharp"] = truth
    if source.spikes is not None:
        pictures |= _spike_picture(source.spikes, number, blur)
    for model, clip in enumerate(clips):
        restored = to_8_bit(read_picture(clip.files[number]).rgb)
        for kind, picture in _model_pictures(clip, number, blur, restored, truth).items():
            pictures[f"{kind}-{model}"] = picture
    return pictures


def _spike_picture(spikes: ClipSpikes, number: int, blur: Image) -> dict[str, Picture]:
    """Return the picture of recorded spikes, if there are any."""
    frame = spikes.frames[number]
    if frame.path is None:
        return {}
    try:
        return {"spikes": instant_picture(*frame.around(0), blur, str(frame.path))}
    except DataError:  # without a single spike there is no gain
        return {}


def _model_pictures(
    clip: RestoredClip, number: int, blur: Image, restored: Image, truth: Image | None
) -> dict[str, Picture]:
    """Return the pictures of a restored frame by kind."""
    difference = np.abs(restored.astype(np.float32) - blur).mean(axis=-1)
    pictures = {"restored": restored, "difference": coloured(difference, TOPS["difference"])}
    spikes = clip.source.spikes
    if clip.with_spikes and spikes is not None and spikes.frames[number].path is not None:
        residual = reblur_residual(spikes.frames[number], blur, restored)
        if residual is not None:
            pictures["residual"] = coloured(np.abs(residual), TOPS["residual"])
    if truth is not None:
        pictures["error"] = error_map(restored, truth)
    return pictures
