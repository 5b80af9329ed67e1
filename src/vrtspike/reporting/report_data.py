"""Types of the data of the report page, as those of :mod:`vrtspike.reporting.page_data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, final

from vrtspike.reporting.page_data import (
    Curve,
    Curves,
    Gallery,
    GalleryExample,
    MetricMeans,
    PictureFacts,
    TableRow,
    Video,
)


class Remark(TypedDict):
    """A remark on the results of a run.

    Attributes:
        sentence: the remark.
        explanation: its explanation, which runs with the same remark share.
    """

    sentence: str
    explanation: str


class ExampleOnPage(GalleryExample):
    """An example frame of an evaluation, with the name of its sequence in the tables."""

    sequence: str


@final
class EvaluationOnPage(TypedDict):
    """The evaluation of a run.

    Attributes:
        dataset: name of the data set.
        split: folder of the test sequences.
        frames: number of test frames.
        sequences: number of test sequences.
        test_frames: entries of the summary that are equal for evaluations on the same frames.
        frames_text: the test frames in words.
        model_seconds_per_frame: time of the model for a frame; None if unknown.
        metrics: first the one that ranks frames and examples, then in the order of the task.
        interval_method: method of the intervals of gains; empty without one.
        warnings: warnings of the evaluation.
        notes: sentences on its values.
        remark: a remark of the task; None if there is none.
        sequence_rows: mean values of each test sequence.
        frame_rows: sequence, frame, and both values of each metric, of every ``frame_step``-th
            frame.
        frame_step: distance of the frames in ``frame_rows``.
        worst: sequence, frame and value of the worst frames.
        choice: choice of the examples, in words.
        examples: example frames, the worst first.
        videos: videos of sequences.
        figures: ``caption`` and ``data`` (PNG in base64) of pictures that the evaluation has drawn.
    """

    dataset: str
    split: str
    frames: int
    sequences: int
    test_frames: dict[str, Any]
    frames_text: str
    model_seconds_per_frame: float | None
    metrics: list[MetricMeans]
    interval_method: str
    warnings: list[str]
    notes: list[str]
    remark: Remark | None
    sequence_rows: list[TableRow]
    frame_rows: list[list[Any]]
    frame_step: int
    worst: list[tuple[str, str, float]]
    choice: str
    examples: list[ExampleOnPage]
    videos: list[Video]
    figures: list[dict[str, str]]


@final
class NotEvaluated(TypedDict):
    """The reason why a run has no evaluation."""

    reason: str


class Dot(TypedDict):
    """A dot of a plot with a line from ``low`` to ``high``; values that are None are left out."""

    label: str
    value: float | None
    low: float | None
    high: float | None


class DotPlot(TypedDict):
    """A plot of a row of dots.

    Attributes:
        title: heading above it.
        axis: title of the axis of the values.
        missing: sentence in place of a plot without dots.
        dots: the dots from the top to the bottom.
    """

    title: str
    axis: str
    missing: str
    dots: list[Dot]


class DataPart(TypedDict):
    """A part of the section on the data.

    Attributes:
        title: name of the data set; empty for none.
        text: sentences on it.
        is_missing: True if the text says that there are no facts.
        plots: dot plots below the text.
        note: note below the plots.
    """

    title: str
    text: str
    is_missing: bool
    plots: list[DotPlot]
    note: str


class RunOrigin(TypedDict):
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


class FindingOnPage(TypedDict):
    """A finding in the logs of a run, with its evidence, the advised change and its effect."""

    symptom: str
    severity: str
    evidence: str
    change: str
    effect: str
    keys: Sequence[str]


class PerformanceOnPage(TypedDict):
    """Time and memory of a run; numbers that are not known are None.

    Attributes:
        step_ms: milliseconds of a step.
        samples_per_second: speed of the training.
        data_share: share of a step that waits for data.
        process_mb, gpu_peak_mb: memory in megabytes of 2**20 bytes.
        parts: shares of a step by the name of its part.
        sections: rows of the table of sections.
        throughput: curve of the speed by title.
        memory: curves of the memory by title.
        findings: findings in the logs.
    """

    step_ms: float | None
    samples_per_second: float | None
    data_share: float | None
    process_mb: float | None
    gpu_peak_mb: float | None
    parts: dict[str, float]
    sections: list[TableRow]
    throughput: dict[str, Curve]
    memory: dict[str, Curve]
    findings: list[FindingOnPage]


class ValidationPicture(TypedDict):
    """A picture of a validation: its step, its name, and WebP in base64."""

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
        validation_pictures: pictures of its validations, in the order of the steps.
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
    performance: PerformanceOnPage
    origin: RunOrigin


class ReportData(TypedDict):
    """The data of the report page.

    Attributes:
        best: preset of the best run; empty if none was evaluated.
        runs: the runs, in order.
        data: parts of the section on the data.
        galleries: by task; tasks without example pictures have none.
        colours: colours of maps from 0 to the brightest, in CSS.
        words: words of the page, those of a gallery, and ``seconds``, the title of the column with
            the seconds of a frame.
        orders: orders of the frames that a reader may choose.
        training_note: sentences below the curves.
        pictures: facts on the example pictures.
    """

    best: str
    runs: list[RunOnPage]
    data: list[DataPart]
    galleries: dict[str, Gallery]
    colours: list[str]
    words: dict[str, str]
    orders: tuple[str, ...]
    training_note: str
    pictures: PictureFacts
