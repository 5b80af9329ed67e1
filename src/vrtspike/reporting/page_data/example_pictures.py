"""Example pictures of pages: their kinds, frames, words and facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class PictureKind(TypedDict):
    """A kind of pictures of example frames.

    Attributes:
        name: key of the pictures.
        title: its name on the page.
        is_beside: True if it is shown beside the two pictures with the movable boundary.
        note: explanation; empty for none.
        top: grey values that the brightest colour of a map shows; None if it is no map.
    """

    name: str
    title: str
    is_beside: bool
    note: str
    top: int | None


class Gallery(TypedDict):
    """The kinds of pictures of example frames, and their words.

    Attributes:
        kinds: all kinds in the order of menus.
        left, right: kinds on both sides of the boundary at first.
        by: words before the name of another run, for its picture of the kind ``right``.
    """

    kinds: list[PictureKind]
    left: str
    right: str
    by: str


class GalleryExample(TypedDict):
    """An example frame.

    Attributes:
        label: name of its sequence in captions.
        frame: its name.
        chosen: places within its sequence by the main metric: ``worst``, ``middle``, ``best``.
        metrics: values by column.
        pictures: by kind: WebP in base64, or names of files beside the page.
    """

    label: str
    frame: str
    chosen: list[str]
    metrics: dict[str, float | None]
    pictures: Mapping[str, str]


class GalleryWords(TypedDict):
    """Words of the pictures.

    Attributes:
        model: name of what a run stands for: a preset, a model.
        videos: heading of the videos.
        left_out: end of the sentence on frames that were left out.
    """

    model: str
    videos: str
    left_out: str


class PictureFacts(TypedDict):
    """Facts on all example pictures of a page.

    Attributes:
        form: their format, in words.
        left_out: number of frames that were left out.
        folder: folder of the pictures beside the page; None if the page contains them.
    """

    form: str
    left_out: int
    folder: str | None
