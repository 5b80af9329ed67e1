"""Types of the data of the page: JSON values that the scripts of the page read."""

from __future__ import annotations

from typing import TypedDict

from vrtspike.reporting.page_data import (
    Gallery,
    GalleryExample,
    GalleryWords,
    MetricOnPage,
    PictureFacts,
    Video,
)


class RestoredExample(GalleryExample):
    """A frame with pictures.

    Attributes:
        time: number of the frame in the clip.
        doubts: reasons to doubt it.
    """

    time: int
    doubts: list[str]


class RestoredEvaluation(TypedDict):
    """The metrics and pictures of a model, as those of an evaluation.

    Attributes:
        dataset: name of the clip.
        split: always empty.
        metrics: metrics that were measured; the first one ranks the frames.
        examples: frames with pictures, the worst first.
        videos: videos beside the page.
    """

    dataset: str
    split: str
    metrics: list[MetricOnPage]
    examples: list[RestoredExample]
    videos: list[Video]


class RestoredRun(TypedDict):
    """The results of a model.

    Attributes:
        name: name of the model.
        task: name of the gallery of its pictures.
        doubtful: numbers of the frames in doubt.
        frame_values: a value for each frame, by column; None if it was not measured.
        evaluation: metrics and pictures.
    """

    name: str
    task: str
    doubtful: list[int]
    frame_values: dict[str, list[float | None]]
    evaluation: RestoredEvaluation


class RestoredWords(GalleryWords):
    """Words of the page, with the sentence in place of metrics."""

    no_metrics: str


class RestoredData(TypedDict):
    """The data of the page of restored frames.

    Attributes:
        best: name of the model whose pictures are shown first.
        frames: names of the frames.
        origin: names and values of inputs and model, and doubts.
        orders: orders of the frames that a reader may choose.
        galleries: kinds of pictures, by name of the gallery.
        colours: colours of maps from 0 to the brightest, in CSS.
        words: words of the page.
        pictures: facts on the pictures.
        runs: the results of the model, and of the one to compare with if there is one.
    """

    best: str
    frames: list[str]
    origin: list[tuple[str, str]]
    orders: tuple[str, ...]
    galleries: dict[str, Gallery]
    colours: list[str]
    words: RestoredWords
    pictures: PictureFacts
    runs: list[RestoredRun]
