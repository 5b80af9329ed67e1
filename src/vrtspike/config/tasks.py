"""The interface of a task, and the registry of tasks.

A preset names its task (``TASK``). Each package of ``vrtspike`` with a module ``task`` is one
(docs/extending.md). The stages that train, analyse, compare and report call that module.

The interface is divided by who calls it, because packages import only from earlier ones:

- :class:`Task`: for every task; :func:`find_task` returns it.
- :class:`PreparedTask`, :class:`EstimatedTask`: for some tasks; :func:`prepared_task`
  and :func:`estimated_task` return them, or None.
- :class:`VariedTask`: for some tasks; :func:`frame_keys` returns its constant.
- :class:`vrtspike.training.run.TrainableTask`: its function ``build``, for training.
- :class:`vrtspike.analysis.evaluation_files.EvaluatedTask`: its function ``evaluate``.
- :class:`vrtspike.analysis.advice.task_advice.AdvisedTask`: its function ``advice``, optional.
- :class:`vrtspike.reporting.task_page.ReportedTask`: its function ``page``, optional.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable

from vrtspike.config.run_schema import RunSettings
from vrtspike.system.errors import ConfigError

OWN_PROTOCOL: Final = "own"
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
        before: name of the reference of an evaluation: the input, or a trivial forecast.
        after: name of the model's result.
    """

    name: str
    title: str
    definition: str
    _: KW_ONLY
    unit: str = ""
    decimals: int = 4
    larger_is_better: bool = True
    before: str = "before"
    after: str = "after"

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

        >>> Metric("rmse", "RMSE", "...", before="persistence").columns
        ('rmse_persistence', 'rmse')
        """
        return f"{self.name}_{self.before}", self.name

    @property
    def kinds(self) -> tuple[str, str, str]:
        """Names of its values in an evaluation: reference, result and gain."""
        return self.before, self.after, "gain"

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


class Task(Protocol):
    """A module ``task``: the part that every task has.

    ``build`` and ``evaluate`` are in :class:`vrtspike.training.run.TrainableTask` and
    :class:`vrtspike.analysis.evaluation_files.EvaluatedTask`, whose packages come later.
    Snakemake imports the module for every plan, so import PyTorch and other large packages within
    functions. A stage is stale when the code of its function has changed.

    Attributes:
        SETTINGS: the schema of a preset: a subclass of ``RunSettings``.
        METRICS: the metrics of validation and evaluation, by name, the main one first.
    """

    SETTINGS: type[RunSettings]
    METRICS: Mapping[str, Metric]

    def data_folder(self, settings: Any) -> str:  # noqa: ANN401 - of SETTINGS
        """Return the folder of prepared data below ``<results>/data``, which equal data share.

        The manifest of the data is its file ``dataset.json``.
        """

    def dataset_digest(self, manifest_path: Path) -> str:
        """Return the digest of the contents of prepared data.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """

    def require_data(self, manifest_path: Path, settings: Any) -> None:  # noqa: ANN401 - of SETTINGS
        """Refuse data that a preset cannot be trained on.

        Raises:
            UserError: with the reason.
        """

    def training_weights(self, settings: Any) -> dict[str, Path]:  # noqa: ANN401 - of SETTINGS
        """Return the files of weights that a training starts from or uses, by key."""

    def evaluation_weights(self, settings: Any) -> dict[str, Path]:  # noqa: ANN401 - of SETTINGS
        """Return the files of weights that an evaluation's metrics use, by key."""

    def statistics(self, settings: Any, manifest_path: Path) -> Mapping[str, Any]:  # noqa: ANN401
        """Return the statistics that standardise inputs, as JSON; kept next to the weights.

        The result includes ``dataset`` and ``dataset_digest``.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """


@runtime_checkable
class PreparedTask(Task, Protocol):
    """A task whose data the rule ``prepare`` makes: its module defines :meth:`prepare`.

    The data of other tasks are made by rules of their own.
    """

    def data_files(self, settings: Any) -> Sequence[Path]:  # noqa: ANN401 - of SETTINGS
        """Return the raw files that :meth:`prepare` reads; none where the data are generated.

        Raises:
            DataError: if they are missing.
        """

    def data_settings(self, settings: Any) -> Mapping[str, Any]:  # noqa: ANN401 - of SETTINGS
        """Return the keys that change what :meth:`prepare` writes."""

    def prepare(self, settings: Any, manifest_path: Path, show: Callable[[str], None]) -> None:  # noqa: ANN401
        """Prepare the data of a preset and write their manifest, last.

        Raises:
            UserError: if they cannot be used.
        """


@runtime_checkable
class EstimatedTask(Task, Protocol):
    """A task that estimates the memory of a training: its module defines :meth:`memory`."""

    def memory(self, settings: Any) -> tuple[float, float]:  # noqa: ANN401 - of SETTINGS
        """Return memory of a training in GiB: fixed, and per sample of a micro-step."""


@runtime_checkable
class VariedTask(Task, Protocol):
    """A task with variants of the frames of one split: its module defines ``FRAME_KEYS``.

    Attributes:
        FRAME_KEYS: keys of its summaries that tell the variants apart.
    """

    FRAME_KEYS: FrameKeys


def all_metrics() -> dict[str, Metric]:
    """Return the metrics of all tasks by name; the first task's for a name that two have."""
    return dict(ChainMap(*(dict(find_task(name).METRICS) for name in TASKS)))


def find_task(name: str, location: str = "settings") -> Task:
    """Return the task that TASK names.

    Args:
        name: value of TASK.
        location: file and line of TASK, for the message.

    Raises:
        ConfigError: if there is none.
    """
    if not isinstance(name, str) or name not in TASKS:
        names = ", ".join(TASKS)
        raise ConfigError(
            f"{location}: TASK is {name!r}, and there is no such task; there are: {names}"
        )
    return cast("Task", import_module(TASKS[name]))


def incomplete_task(name: str, function: str) -> ConfigError:
    """Return the error of a task without a function that every task has.

    Args:
        name: value of TASK.
        function: name of the function.
    """
    return ConfigError(
        f"TASK is {name!r}, and {TASKS[name]} has no function {function}; expected the whole "
        "interface of a task (docs/extending.md)"
    )


def prepared_task(name: str) -> PreparedTask | None:
    """Return the task that TASK names, if the rule ``prepare`` makes its data.

    Args:
        name: value of TASK.

    Returns:
        the task; None if rules of the task's own make its data.

    Raises:
        ConfigError: if there is no such task.

    >>> prepared_task("sst") is None, prepared_task("deblurring") is None
    (False, True)
    """
    task = find_task(name)
    return task if isinstance(task, PreparedTask) else None


def estimated_task(name: str) -> EstimatedTask | None:
    """Return the task that TASK names, if it estimates the memory of a training.

    Args:
        name: value of TASK.

    Raises:
        ConfigError: if there is no such task.
    """
    task = find_task(name)
    return task if isinstance(task, EstimatedTask) else None


def frame_keys(name: str) -> FrameKeys:
    """Return the keys that tell variants of a task's test frames apart; none without variants.

    Args:
        name: value of TASK.

    Raises:
        ConfigError: if there is no such task.

    >>> frame_keys("deblurring").variants, frame_keys("sst").variants
    (('blur_dir',), ())
    """
    task = find_task(name)
    return task.FRAME_KEYS if isinstance(task, VariedTask) else FrameKeys()
