"""The data of the live page of a training."""

from __future__ import annotations

from typing import TypedDict

from vrtspike.reporting.page_data.curves import Curves


class FactText(TypedDict):
    """A value of a live page with its name."""

    title: str
    text: str


class LivePictures(TypedDict):
    """The last pictures of a training: their step, and WebP in base64 by name."""

    step: int
    files: dict[str, str]


class LiveRunOnPage(TypedDict):
    """The state of a training on the live page.

    Attributes:
        name: the preset.
        heading: first line of the page.
        facts: values with their names.
        share: finished part, 0 to 1; None if unknown.
        has_ended: True if no training runs any more.
        curves: curves so far.
        pictures: the last pictures.
    """

    name: str
    heading: str
    facts: list[FactText]
    share: float | None
    has_ended: bool
    curves: Curves
    pictures: LivePictures
