"""The evaluation of a run on the report page."""

from __future__ import annotations

from typing import Any, TypedDict, final

from vrtspike.reporting.page_data.example_pictures import GalleryExample
from vrtspike.reporting.page_data.metrics import MetricMeans
from vrtspike.reporting.page_data.tables import TableRow


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


class Drawing(TypedDict):
    """A picture that an evaluation has drawn: PNG in base64, with a caption."""

    caption: str
    data: str


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
        remark: a remark of the task; None for none.
        sequence_rows: mean values of each test sequence.
        frame_rows: sequence, frame, and both values of each metric, of every ``frame_step``-th
            frame.
        frame_step: distance of the frames in ``frame_rows``.
        worst: sequence, frame and value of the worst frames.
        choice: choice of the examples, in words.
        examples: example frames, the worst first.
        videos: videos of sequences.
        figures: pictures that the evaluation has drawn.
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
    figures: list[Drawing]


@final
class NotEvaluated(TypedDict):
    """The reason why a run has no evaluation."""

    reason: str
