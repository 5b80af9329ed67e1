"""The data of the report page."""

from __future__ import annotations

from typing import TypedDict

from vrtspike.reporting.page_data.curves import Curves
from vrtspike.reporting.page_data.data_part import DataPart
from vrtspike.reporting.page_data.evaluation import EvaluationOnPage, NotEvaluated
from vrtspike.reporting.page_data.example_pictures import Gallery, GalleryWords, PictureFacts
from vrtspike.reporting.page_data.performance import Performance


class Origin(TypedDict):
    """The origin of a run.

    Attributes:
        commit: commit of the code that trained it, in words.
        base: name of the settings that its own are compared with.
        differences: key, base value and own value of each setting that differs.
        facts: name and value of everything else, in order.
    """

    commit: str
    base: str
    differences: list[tuple[str, ...]]
    facts: list[tuple[str, str]]


class ValidationPicture(TypedDict):
    """A picture of a validation: step, name, and WebP in base64."""

    step: int
    name: str
    data: str


class RunOnPage(TypedDict):
    """A run of the report page.

    Attributes:
        name: name of the preset.
        task: name of its task.
        dataset: name of its data set.
        parameters: number of parameters of its model; None if unknown.
        weights_mb: size of its file of weights in 10**6 bytes; None if it is missing.
        training_seconds: duration of its training; None if nothing was trained.
        validation_pictures: pictures of its validations, by step.
        curves: curves of its training.
        evaluation: its evaluation, or the reason why there is none.
        performance: time and memory.
        origin: settings, code and machine.
    """

    name: str
    task: str
    dataset: str
    parameters: int | None
    weights_mb: float | None
    training_seconds: float | None
    validation_pictures: list[ValidationPicture]
    curves: Curves
    evaluation: EvaluationOnPage | NotEvaluated
    performance: Performance
    origin: Origin


class Words(GalleryWords):
    """Words of the report page, with the title of the column with the seconds of a frame."""

    seconds: str


class ReportData(TypedDict):
    """The data of the report page.

    Attributes:
        best: preset of the best run; empty if none was evaluated.
        runs: the runs, in order.
        data: parts of the section on the data.
        galleries: by task; tasks without example pictures have none.
        colours: colours of maps from 0 to the brightest, in CSS.
        words: words of the page.
        orders: orders of the frames that a reader may choose.
        training_note: sentences below the curves.
        pictures: facts on the example pictures.
    """

    best: str
    runs: list[RunOnPage]
    data: list[DataPart]
    galleries: dict[str, Gallery]
    colours: list[str]
    words: Words
    orders: tuple[str, ...]
    training_note: str
    pictures: PictureFacts
