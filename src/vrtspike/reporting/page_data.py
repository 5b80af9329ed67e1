"""Types of the data of pages: JSON values that the scripts in ``assets`` read.

Numbers that are not finite are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, final

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
    """A further reference of a metric, besides the one of its gain.

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


class Example(TypedDict):
    """An example frame.

    Attributes:
        label: name of its sequence in captions.
        sequence: name of its sequence in the tables.
        frame: its name.
        chosen: places within its sequence by the main metric: ``worst``, ``middle``, ``best``.
        metrics: values by column.
        pictures: by kind: WebP in base64, or names of files beside the page.
    """

    label: str
    sequence: str
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


class Remark(TypedDict):
    """A remark on the results of a run.

    Attributes:
        sentence: the remark.
        explanation: its explanation, which runs with the same remark share.
    """

    sentence: str
    explanation: str


@final
class EvaluationOnPage(TypedDict):
    """The evaluation of a run.

    Attributes:
        dataset: name of the data set.
        split: folder of the test sequences.
        frames: number of test frames.
        sequences: number of test sequences.
        mean_over: units of equal weight in the means.
        test_frames: entries of the summary that are equal for evaluations on the same frames.
        contents: entries of the summary on the contents of the data set.
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
    mean_over: Literal["frames", "sequences"]
    test_frames: dict[str, Any]
    contents: dict[str, Any]
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
    examples: list[Example]
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


class RunOnPage(TypedDict):
    """A run of the report page.

    Attributes:
        name: name of the preset.
        task: name of its task.
        dataset: name of its data set.
        parameters: number of parameters of its model; None if unknown.
        weights_mb: size of its file of weights in 10**6 bytes; None if it is missing.
        training_seconds: duration of its training; None if nothing was trained.
        validation_pictures: ``step``, ``name`` and ``data`` (WebP in base64) of pictures of its
            validations, in the order of the steps.
        curves: curves of its training.
        evaluation: its evaluation, or the reason why there is none.
        performance: time and memory, from :func:`vrtspike.reporting.performance_data.performance`.
        origin: settings, code and machine.
    """

    name: str
    task: str
    dataset: str
    parameters: int | None
    weights_mb: float | None
    training_seconds: float | None
    validation_pictures: list[dict[str, Any]]
    curves: Curves
    evaluation: EvaluationOnPage | NotEvaluated
    performance: dict[str, Any]
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
