"""The part of a task on the report page: its words, columns and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.analysis.evaluation_files import EvaluationSummary
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import Metric, find_task, has_part
from vrtspike.reporting.page_data import (
    DataPart,
    ExtraReference,
    Gallery,
    MetricMeans,
    Remark,
    TableRow,
)


@dataclass(frozen=True)
class ExampleKinds:
    """The kinds of pictures of a task's example frames.

    Attributes:
        gallery: kinds and words of the page. A kind ``error`` shows the error map of ``right`` and
            ``truth``, which the page computes.
        truth: kind of the true pictures.
        gray: kinds of grey pictures.
    """

    gallery: Gallery
    truth: str
    gray: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CardWords:
    """Words of a task on a model card.

    Attributes:
        pipeline: the hub's name of the model's task; empty for none.
        tags: tags of the hub.
        usage: a line of Python that applies a loaded ``model``; empty for none.
        worse: data on which results may be worse, with the sentences that follow.
        limits: further sentences on limits of the model.
    """

    pipeline: str = ""
    tags: tuple[str, ...] = ()
    usage: str = ""
    worse: str = "results on other data may be worse."
    limits: tuple[str, ...] = ()


class TaskReport:
    """The part of a task on the report page; a subclass replaces what its task shows.

    Attributes:
        about: paragraph below the headline on the data of the task; empty for none.
        implied_metric: title of the metric that its unit alone names in a sentence, such as PSNR
            for dB; empty for none.
        seconds: title of the column with the seconds of a frame.
        videos: heading of the videos.
        values_note: sentence that compares the test frames with those of validations; empty for
            none.
        examples: kinds of pictures of example frames; None for a task without example frames.
    """

    about: str = ""
    implied_metric: str = ""
    seconds: str = "evaluating, s a frame"
    videos: str = "Videos"
    values_note: str = ""
    examples: ExampleKinds | None = None

    def frames_detail(self, summary: EvaluationSummary) -> str:
        """Return words on the test frames after their data set and split; empty for none."""
        return ""

    def extra_reference(self, metric: Metric, summary: EvaluationSummary) -> ExtraReference | None:
        """Return a further reference of a metric, in addition to that of its gain."""
        return None

    def notes(self, summary: EvaluationSummary) -> list[str]:
        """Return sentences on the values of an evaluation, to follow the metrics' definitions."""
        return []

    def remark(
        self, metrics: Sequence[MetricMeans], sequences: Sequence[TableRow]
    ) -> Remark | None:
        """Return a remark on an evaluation.

        Args:
            metrics: its metrics, the main one first.
            sequences: its table of sequences.
        """
        return None

    def validation_note(self, runs: Mapping[str, RunSettings]) -> str:
        """Return a sentence on the frames of validations; empty for none.

        Args:
            runs: settings by the name of the run, of this task alone.
        """
        return ""

    def card(self, settings: RunSettings) -> CardWords:
        """Return the words of a model card.

        Args:
            settings: settings of the run.
        """
        return CardWords()

    def data_parts(self, results: Path, datasets: Sequence[str]) -> list[DataPart]:
        """Return the parts of the section on the data; none for no section.

        Args:
            results: folder of all results.
            datasets: names of the data sets of this task's runs.

        Raises:
            RunError: if a file of the data's results is damaged.
        """
        return []


def task_report(name: str) -> TaskReport:
    """Return the part of a task on the report page, by default without parts of its own.

    Args:
        name: value of TASK.

    Raises:
        ConfigError: if there is no such task.

    >>> task_report("sst").about, task_report("deblurring").implied_metric
    ('', 'PSNR')
    """
    task = find_task(name)
    return task.page() if has_part(task, "page") else TaskReport()


def task_reports(names: Iterable[str]) -> dict[str, TaskReport]:
    """Return the parts of several tasks by name, each once, in order."""
    return {name: task_report(name) for name in dict.fromkeys(names)}


def validation_note(settings: Mapping[str, RunSettings]) -> str:
    """Return the tasks' sentences on the frames of validations.

    Args:
        settings: settings by the name of the run.
    """
    sentences = []
    for task, report in task_reports(run.TASK for run in settings.values()).items():
        members = {name: run for name, run in settings.items() if task == run.TASK}
        sentences.append(report.validation_note(members))
    return " ".join(sentence for sentence in sentences if sentence)
