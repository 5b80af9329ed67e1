"""Types of the data that several pages share: JSON values that the scripts in ``assets`` read.

Numbers that are not finite are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

TableRow = dict[str, Any]
"""A row of a table by column: texts, and numbers with six digits."""


class Curve(TypedDict):
    """A curve over the steps of a training.

    Attributes:
        steps: the last step of each point.
        values: means over the steps of each point.
        width: logged steps per point.
    """

    steps: list[int]
    values: list[float | None]
    width: int


class Curves(TypedDict):
    """The curves of a run by title, of training steps and of validations."""

    train: dict[str, Curve]
    validation: dict[str, Curve]


class ExtraReference(TypedDict):
    """A further reference of a metric, beside the one that its gain is over.

    Attributes:
        title: name of the reference.
        qualifier: restriction of its values, such as ``gray``; empty for none.
        column: column of its values in the tables of an evaluation.
        mean: mean over the test frames.
    """

    title: str
    qualifier: str
    column: str
    mean: float | None


class MetricOnPage(TypedDict):
    """A metric with its means over frames.

    Attributes:
        name, title: of the metric; they include a protocol other than the default.
        definition: definition of the measured quantity.
        unit: empty for none.
        decimals: shown digits after the decimal point.
        before, after: names of the reference and of the result.
        columns: columns of the reference and of the result in tables.
        reference, result: means of both.
        gain: improvement of the result over the reference.
        extra: a further reference; None without one.
    """

    name: str
    title: str
    definition: str
    unit: str
    decimals: int
    before: str
    after: str
    columns: tuple[str, str]
    reference: float | None
    result: float | None
    gain: float | None
    extra: ExtraReference | None


class MetricMeans(MetricOnPage):
    """A metric with its means over the test frames of an evaluation.

    Attributes:
        larger_is_better: False if smaller values are better.
        gain_interval: interval of the gain; None without one.
        reason: reason for a missing mean; empty for none.
    """

    larger_is_better: bool
    gain_interval: tuple[float, float] | None
    reason: str


class PictureKind(TypedDict):
    """A kind of pictures of example frames.

    Attributes:
        name: key of the pictures.
        title: its name on the page.
        is_beside: True if it is shown beside the two pictures with the movable boundary.
        note: explanation; empty for none.
        top: grey values that the brightest colour of a map shows; None if it is not a map.
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


class Video(TypedDict):
    """A video of restored frames.

    Attributes:
        label: its name.
        data: MP4 in base64; None for a large one.
        link: path relative to the page.
        megabytes: size, in 10**6 bytes.
        is_played: True if the page plays a file beside it; otherwise it links to what it does not
            contain.
    """

    label: str
    data: str | None
    link: str
    megabytes: float
    is_played: bool
