"""The interface of a task, and the registry of tasks.

A preset names its task (``TASK``). Each package of ``vrtspike`` with a module ``task`` is one
(docs/extending.md). :class:`Task` lists all that the stages of the workflow call in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from vrtspike.config.run_schema import RunSettings
from vrtspike.system.errors import ConfigError

DEFAULT_PROTOCOL: Final = "own"
"""The default protocol of measurement; names of columns omit it."""


@dataclass(frozen=True)
class Metric:
    """A metric, as tables and reports show it.

    Attributes:
        name: name in columns of tables.
        title: title in sentences.
        definition: definition of the measured quantity, as reports print it.
        unit: empty for none.
        decimals: shown digits after the decimal point.
        larger_is_better: false if smaller values are better.
        reference_name: name of the reference of an evaluation: the input, or a trivial forecast.
        result_name: name of the model's result.
    """

    name: str
    title: str
    definition: str
    _: KW_ONLY
    unit: str = ""
    decimals: int = 4
    larger_is_better: bool = True
    reference_name: str = "before"
    result_name: str = "after"

    @property
    def explanation(self) -> str:
        """The definition, and "lower is better" where it is."""
        if self.larger_is_better:
            return self.definition
        return f"{self.definition}; lower is better"

    @property
    def label(self) -> str:
        """Title and unit, for an axis.

        >>> Metric("psnr", "PSNR", "...", unit="dB").label, Metric("ssim", "SSIM", "...").label
        ('PSNR, dB', 'SSIM')
        """
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of the tables of an evaluation: of the reference and of the result.

        >>> Metric("rmse", "RMSE", "...", reference_name="persistence").columns
        ('rmse_persistence', 'rmse')
        """
        return f"{self.name}_{self.reference_name}", self.name

    @property
    def kinds(self) -> tuple[str, str, str]:
        """Names of its values in an evaluation: reference, result and gain."""
        return self.reference_name, self.result_name, "gain"

    @property
    def format(self) -> str:
        """Format specification of a value, such as ``.2f``."""
        return f".{self.decimals}f"

    def text(self, value: float) -> str:
        """Return a value with its unit, such as ``31.20 dB``."""
        return f"{value:{self.format}} {self.unit}".strip()

    def gain(self, value: float, reference: float) -> float:
        """Return the improvement of ``value`` over ``reference``; negative where it is worse."""
        if self.larger_is_better:
            return value - reference
        return reference - value

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values.

        Raises:
            ValueError: if there are none.
        """
        if self.larger_is_better:
            return max(values)
        return min(values)


@dataclass(frozen=True)
class FrameKeys:
    """Keys of a task's summaries on the frames of their test split.

    Attributes:
        variants: keys that differ between variants of a split, whose frames cannot be compared.
        encodings: keys that change the digest of the data, but no frame.
    """

    variants: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()


_ROOT = Path(__file__).parents[1]

TASKS: Mapping[str, str] = {
    path.parent.name: f"{_ROOT.name}.{path.parent.name}.task"
    for path in sorted(_ROOT.glob("*/task.py"))
}
"""The modules of all tasks by the names that TASK takes; none is imported for this."""


TaskSettings: TypeAlias = Any
"""Settings of a preset of the task: an instance of its ``SETTINGS``."""

LaterType: TypeAlias = Any
"""Placeholder for a type from a higher layer, which the docstring names.

Imports upward are rejected for types, too. A task writes the type itself, so that its own functions
are checked.
"""

OptionalPart = Literal["FRAME_KEYS", "prepare", "memory", "advice", "page"]
"""Optional parts of :class:`Task`; see :func:`has_part`."""


class Task(Protocol):
    """The parts of a module ``task``, in the order of a run.

    Every task has the abstract functions, ``SETTINGS`` and ``METRICS``; the other parts are
    optional. Snakemake imports the module for every plan, so import PyTorch and other large
    packages within functions. A stage is stale when the code of its function has changed.

    Attributes:
        SETTINGS: the schema of a preset: a subclass of ``RunSettings``.
        METRICS: the metrics of validation and evaluation, by name, the main one first.
        FRAME_KEYS: keys of its summaries that tell variants of the test frames apart; optional.
    """

    SETTINGS: type[RunSettings]
    METRICS: Mapping[str, Metric]
    FRAME_KEYS: FrameKeys

    # Data

    @abstractmethod
    def data_folder(self, settings: TaskSettings) -> str:
        """Return the folder of prepared data below ``<results>/data``, which equal data share.

        The manifest of the data is its file ``dataset.json``.
        """

    def prepare(
        self, settings: TaskSettings, manifest_path: Path, show: Callable[[str], None]
    ) -> None:
        """Prepare the data of a preset and write their manifest, last: the stage ``prepare``.

        Optional: the data of a task without this function are made by rules of its own. A task
        with it has :meth:`data_files` and :meth:`data_settings`, too.

        Raises:
            UserError: if they cannot be used.
        """

    def data_files(self, settings: TaskSettings) -> Sequence[Path]:
        """Return the raw files that :meth:`prepare` reads; empty if the data are generated.

        Raises:
            DataError: if they are missing.
        """

    def data_settings(self, settings: TaskSettings) -> Mapping[str, Any]:
        """Return the keys that change what :meth:`prepare` writes."""

    @abstractmethod
    def dataset_digest(self, manifest_path: Path) -> str:
        """Return the digest of the contents of prepared data.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """

    @abstractmethod
    def require_data(self, manifest_path: Path, settings: TaskSettings) -> None:
        """Reject data that a preset cannot be trained on.

        Raises:
            UserError: with the reason.
        """

    # Training

    def memory(self, settings: TaskSettings) -> tuple[float, float]:
        """Return memory of a training in GiB: fixed, and per sample of a micro-step. Optional."""

    @abstractmethod
    def training_weights(self, settings: TaskSettings) -> dict[str, Path]:
        """Return the files of weights that a training starts from or uses, by key."""

    @abstractmethod
    def statistics(self, settings: TaskSettings, manifest_path: Path) -> Mapping[str, Any]:
        """Return the statistics that standardise inputs, as JSON; kept next to the weights.

        The result includes ``dataset`` and ``dataset_digest``.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """

    @abstractmethod
    def build(self, run: LaterType, ranks: LaterType, workers: LaterType) -> LaterType:
        """Build model, objective and batches for one process of a training.

        Args:
            run: :class:`vrtspike.runs.identity.RunIdentity`.
            ranks: :class:`vrtspike.training.distributed.DistributedContext`.
            workers: :class:`vrtspike.training.workers.WorkerCounts`.

        Returns:
            :class:`vrtspike.training.objectives.TrainingParts`.

        Raises:
            UserError: if the data, weights or settings cannot be used; the same on all processes if
                it concerns all of them.
        """

    # Results

    @abstractmethod
    def evaluation_weights(self, settings: TaskSettings) -> dict[str, Path]:
        """Return the files of weights that an evaluation's metrics use, by key."""

    @abstractmethod
    def evaluate(self, job: LaterType) -> list[str]:
        """Evaluate trained weights on the test split.

        Writes the files that :mod:`vrtspike.analysis.evaluation_files` names, ``summary.json``
        last.

        Args:
            job: :class:`vrtspike.runs.evaluation_job.EvaluationJob`.

        Returns:
            the result in lines of text.
        """

    def advice(self, settings: TaskSettings) -> LaterType:
        """Return the keys and words of the task in the advice on a run with these settings.

        Optional; a subclass of :class:`vrtspike.analysis.diagnosis.task_advice.TaskAdvice`.
        """

    def page(self) -> LaterType:
        """Return the words, columns and pictures of the task on the report page.

        Optional; a subclass of :class:`vrtspike.reporting.task_report.TaskReport`.
        """


_REQUIRED = ("SETTINGS", "METRICS", *sorted(Task.__abstractmethods__))
_REQUIRED_WITH_PREPARE = (*_REQUIRED, "data_files", "data_settings")


def find_task(name: str, location: str = "settings") -> Task:
    """Return the task that TASK names.

    Args:
        name: value of TASK.
        location: file and line of TASK, for the message.

    Raises:
        ConfigError: if there is none, or it lacks a required part.
    """
    if not isinstance(name, str) or name not in TASKS:
        names = ", ".join(TASKS)
        raise ConfigError(
            f"{location}: TASK is {name!r}, and there is no such task; there are: {names}"
        )
    task = cast("Task", import_module(TASKS[name]))
    required = _REQUIRED_WITH_PREPARE if has_part(task, "prepare") else _REQUIRED
    missing = [part for part in required if not hasattr(task, part)]
    if missing:
        raise ConfigError(
            f"TASK is {name!r}, and {TASKS[name]} lacks {', '.join(missing)}; expected the "
            "whole interface of a task (docs/extending.md)"
        )
    return task


def has_part(task: Task, part: OptionalPart) -> bool:
    """Return whether a task has an optional part.

    >>> has_part(find_task("sst"), "prepare"), has_part(find_task("deblurring"), "prepare")
    (True, False)
    """
    return hasattr(task, part)
