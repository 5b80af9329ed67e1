"""Pictures of the page of restored frames: in the page, or in files beside it."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from vrtspike.data.rgb_images import Image
from vrtspike.io.images import read_picture, to_8_bit
from vrtspike.reporting.error_maps import ColorMap, colored, error_map
from vrtspike.reporting.page_data import PictureFacts
from vrtspike.reporting.picture_encoding import THUMBNAIL, Encoded, encode_webp, encode_within
from vrtspike.restoration.checks.no_reference import reblur_residual
from vrtspike.restoration.folder.opened_request import RestoredClip
from vrtspike.restoration.folder.record import PAGE_PICTURES, remove_page_pictures
from vrtspike.restoration.page.gallery import TOPS
from vrtspike.restoration.spikes_alone import instant_picture
from vrtspike.system.errors import DataError

LEVELS = ((1280, 80), (1280, 64), (960, 60), (800, 56), (640, 54), (520, 50), (400, 44))
"""Longest side in pixels and quality of WebP, from the best to the smallest."""
SMALL = frozenset({"spikes", "error", "difference", "residual"})
"""Kinds of pictures with half the side and quality: they are shown small beside the others."""
EMBEDDED_BYTES = 6_000_000
"""Size of all pictures up to which the page contains them. In base64 they make a page of about 10
MB, and of 14 MB as an attachment, where common mail services accept 20 MB."""
MAX_FRAMES = 1_000
"""Largest number of frames with pictures; of a longer clip they are chosen evenly."""


FramePictures = Mapping[int, Sequence[Mapping[str, str]]]
"""WebP in base64, or names of files in the page's folder, by number of the frame, for each model by
kind: ``blurry``, ``restored``, ``difference`` and ``thumbnail``; ``spikes``, ``residual``,
``sharp`` and ``error`` where there are any."""


def write_page_pictures(
    clips: Sequence[RestoredClip],
    frames: Sequence[int],
    budget: int,
    output: Path,
    embedded_bytes: int = EMBEDDED_BYTES,
) -> tuple[PictureFacts, FramePictures]:
    """Encode the pictures of frames at the best of :data:`LEVELS` that fits into a size limit.

    Small ones are returned, larger ones are written into files. Files of an earlier call are
    removed.

    Args:
        clips: the clip as restored by each model.
        frames: numbers of the frames.
        budget: bytes of all pictures together.
        output: folder of the page.
        embedded_bytes: size of all pictures up to which no files are written.
    """

    def encode(index: int, side: int, quality: int) -> dict[str, bytes]:
        return _encode(clips, frames[index], side, quality)

    form, encoded = encode_within(encode, len(frames), budget, LEVELS)
    pictures = {frames[index]: contents for index, contents in encoded.items()}
    remove_page_pictures(output)
    folder = None
    # Base64 takes 4 bytes for 3.
    if _size_in_page(pictures, len(clips)) <= min(embedded_bytes, budget * 3 // 4):
        sources = {number: _in_base64(contents) for number, contents in pictures.items()}
    else:
        folder = PAGE_PICTURES
        sources = _write_files(pictures, output / folder)
    shown = {
        number: [_of_model(model, named) for model in range(len(clips))]
        for number, named in sources.items()
    }
    left_out = len(clips[0].files) - len(shown)
    return {"form": form, "left_out": left_out, "folder": folder}, shown


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
    others = sorted(set(range(count)).difference(doubtful))
    return sorted([*first, *_spread(others, limit - len(first))])


def _spread(indices: Sequence[int], limit: int) -> list[int]:
    """Return up to ``limit`` numbers, evenly spaced, with the first and the last."""
    if len(indices) <= limit:
        return list(indices)
    positions = np.linspace(0, len(indices) - 1, limit).astype(int).tolist()
    return [indices[position] for position in positions]


def _size_in_page(pictures: Mapping[int, Mapping[str, bytes]], models: int) -> int:
    """Return the bytes of the pictures that a page contains; shared ones count for each model."""
    return sum(
        len(contents)
        for named in pictures.values()
        for model in range(models)
        for contents in _of_model(model, named).values()
    )


def _in_base64(pictures: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(contents).decode() for name, contents in pictures.items()}


def _write_files(
    pictures: Mapping[int, Mapping[str, bytes]], folder: Path
) -> dict[int, dict[str, str]]:
    """Write pictures into files, and return their names by frame and name of the picture.

    Single files are not written atomically: the page, which names them, is written after them.
    """
    folder.mkdir(exist_ok=True)
    files: dict[int, dict[str, str]] = {}
    for number, named in pictures.items():
        files[number] = {name: f"{number + 1:06d}_{name}.webp" for name in named}
        for name, contents in named.items():
            (folder / files[number][name]).write_bytes(contents)
    return files


def _of_model(model: int, pictures: Mapping[str, Encoded]) -> dict[str, Encoded]:
    """Return a model's pictures by kind, with those that all models share."""
    chosen: dict[str, Encoded] = {}
    for name, picture in pictures.items():
        kind, _, owner = name.partition("-")
        if owner in ("", str(model)):
            chosen[kind] = picture
    return chosen


def _encode(clips: Sequence[RestoredClip], index: int, side: int, quality: int) -> dict[str, bytes]:
    """Encode the pictures of a frame; the names of those of a model end in its place."""
    encoded = {}
    for name, picture in frame_pictures(clips, index).items():
        kind = name.partition("-")[0]
        if kind in SMALL:
            encoded[name] = encode_webp(picture, side // 2, quality // 2)
        else:
            encoded[name] = encode_webp(picture, side, quality)
        if kind == "restored":
            encoded[name.replace(kind, "thumbnail")] = encode_webp(picture, *THUMBNAIL)
    return encoded


def frame_pictures(clips: Sequence[RestoredClip], index: int) -> dict[str, ColorMap]:
    """Return the pictures of a frame.

    Args:
        clips: the clip as restored by each model.
        index: number of the frame.

    Returns:
        uint8 by name: ``blurry``, ``sharp`` and ``spikes``; and of each model ``restored-0``,
        ``difference-0``, ``residual-0``, ``error-0`` (1 for the second).
    """
    source = clips[0].source
    blur = source.frames.frame(index)
    truth = None if clips[0].sharp is None else clips[0].sharp.frame(index)
    pictures: dict[str, ColorMap] = {"blurry": blur}
    if truth is not None:
        pictures["sharp"] = truth
    spikes = None if source.spikes is None else source.spikes.frames[index]
    if spikes is not None and spikes.path is not None:
        # Without a single spike there is no gain.
        with contextlib.suppress(DataError):
            pictures["spikes"] = instant_picture(*spikes.around(0), blur, str(spikes.path))
    for model, clip in enumerate(clips):
        restored = to_8_bit(read_picture(clip.files[index]).rgb)
        for kind, picture in _model_pictures(clip, index, blur, restored, truth).items():
            pictures[f"{kind}-{model}"] = picture
    return pictures


def _model_pictures(
    clip: RestoredClip, index: int, blur: Image, restored: Image, truth: Image | None
) -> dict[str, ColorMap]:
    """Return the pictures of a restored frame by kind."""
    difference = np.abs(restored.astype(np.float32) - blur).mean(axis=-1)
    pictures = {"restored": restored, "difference": colored(difference, TOPS["difference"])}
    spikes = clip.source.spikes
    if clip.with_spikes and spikes is not None and spikes.frames[index].path is not None:
        residual = reblur_residual(spikes.frames[index], blur, restored)
        if residual is not None:
            pictures["residual"] = colored(np.abs(residual), TOPS["residual"])
    if truth is not None:
        pictures["error"] = error_map(restored, truth)
    return pictures
