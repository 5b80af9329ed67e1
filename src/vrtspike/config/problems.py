"""What a problem brings to the pipeline, and the registry of problems.

A preset names its problem (``TASK``). The stages that train, analyse, compare and report know no
problem by name: they ask the module of this name. Each package of ``vrtspike`` that has a module
``problem`` is a problem and needs no entry anywhere (docs/extending.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError


@dataclass(frozen=True)
class Metric:
    """One metric, as tables and reports see it.

    Attributes:
        name: what the columns of tables call it.
        title: what sentences call it.
        definition: what exactly is measured, in the words that reports print.
        unit: of the figure; empty for none.
        decimals: digits after the point that tables show.
        larger_is_better: false where smaller values are better.
        before: what an evaluation compares with: the input, or a forecast that costs nothing.
        after: what the model made.
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
        """The definition, and which values are better where that is not the larger ones."""
        return self.definition if self.larger_is_better else f"{self.definition}; lower is better"

    @property
    def label(self) -> str:
        """Title and unit, for an axis.

        >>> Metric("psnr", "PSNR", "...", unit="dB").label, Metric("ssim", "SSIM", "...").label
        ('PSNR, dB', 'SSIM')
        """
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def columns(self) -> tuple[str, str]:
        """Columns of the tables of an evaluation: of what it is compared with, and of the result.

        >>> Metric("rmse", "RMSE", "...", before="persistence").columns
        ('rmse_persistence', 'rmse')
        """
        return f"{self.name}_{self.before}", self.name

    @property
    def kinds(self) -> tuple[str, str, str]:
        """Its figures of an evaluation; the last is by how much the second is better."""
        return self.before, self.after, "gain"

    @property
    def format(self) -> str:
        """Format specification of a figure, such as ``.2f``."""
        return f".{self.decimals}f"

    def text(self, value: float) -> str:
        """A figure with its unit, such as ``31.20 dB``."""
        return f"{value:{self.format}} {self.unit}".strip()

    def gain(self, value: float, reference: float) -> float:
        """By how much ``value`` is better than ``reference``; negative where it is worse."""
        return value - reference if self.larger_is_better else reference - value

    def best(self, values: Iterable[float]) -> float:
        """The best of some values.

        Raises:
            ValueError: if there are none.
        """
        return max(values) if self.larger_is_better else min(values)


_ROOT = Path(__file__).parents[1]

PROBLEMS: Mapping[str, str] = {
    path.parent.name: f"{_ROOT.name}.{path.parent.name}.problem"
    for path in sorted(_ROOT.glob("*/problem.py"))
}
"""The modules of all problems by the names that TASK takes; none is imported for this."""


class Problem(Protocol):
    """What such a module holds, besides one function each for training and evaluation.

    These two stand where their arguments are defined:
    :class:`vrtspike.training.fit.TrainableProblem` and
    :class:`vrtspike.analysis.evaluation_files.EvaluatedProblem`. Planning imports the module, so it
    imports PyTorch and other large packages within functions only. The code that a function uses
    makes its stage stale, so each stage calls one function.
    """

    SETTINGS: type[RunSettings]
    """The keys of a preset: those of every preset and sections of its own."""
    METRICS: Mapping[str, Metric]
    """What validation and evaluation measure, by name, the most important first."""
    OWN_STAGES: bool
    """Whether rules of its own prepare the data; else :meth:`prepare` does."""

    def data_folder(self, settings: Any) -> str:  # noqa: ANN401 - of SETTINGS
        """Where prepared data stand, below ``<results>/data``; equal for presets that share them.

        The file ``dataset.json`` in it is their manifest.
        """

    def data_files(self, settings: Any) -> Sequence[Path]:  # noqa: ANN401 - of SETTINGS
        """Raw files that the user gives and :meth:`prepare` reads.

        Raises:
            DataError: if there are none.
        """

    def data_settings(self, settings: Any) -> Mapping[str, Any]:  # noqa: ANN401 - of SETTINGS
        """The keys that decide what :meth:`prepare` makes of these files."""

    def prepare(self, settings: Any, manifest: Path, show: Callable[[str], None]) -> None:  # noqa: ANN401
        """Make the data of a preset ready for training and write their manifest, last.

        Raises:
            UserError: if they cannot be used.
        """

    def dataset_digest(self, manifest: Path) -> str:
        """The digest of the contents of prepared data.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """

    def check_data(self, manifest: Path, settings: Any) -> None:  # noqa: ANN401 - of SETTINGS
        """Refuse data that do not suit a preset.

        Raises:
            UserError: saying what does not.
        """

    def training_weights(self, settings: Any) -> dict[str, Path]:  # noqa: ANN401 - of SETTINGS
        """Files of weights that decide the result of a training, by the key that names them."""

    def evaluation_weights(self, settings: Any) -> dict[str, Path]:  # noqa: ANN401 - of SETTINGS
        """Files of weights that an evaluation reads besides the trained ones, by key."""

    def memory(self, settings: Any) -> tuple[float, float] | None:  # noqa: ANN401 - of SETTINGS
        """GiB that a training takes by itself, and for each sample of a micro-step.

        None where :mod:`vrtspike.deblurring.costs` has counted it, or nobody has.
        """

    def statistics(self, settings: Any, manifest: Path) -> Mapping[str, Any]:  # noqa: ANN401
        """What the inputs of a model are standardised with: JSON, kept beside its weights.

        ``dataset`` and ``dataset_digest`` are among it.

        Raises:
            DataError: if there is no such manifest, or none of this version.
        """


def all_metrics() -> dict[str, Metric]:
    """The metrics of all problems by name; of two with one name, that of the earlier problem."""
    found: dict[str, Metric] = {}
    for name in PROBLEMS:
        found = {**find_problem(name).METRICS, **found}
    return found


def find_problem(name: str) -> Problem:
    """The problem that TASK names.

    Raises:
        ConfigError: if there is none.
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        near = difflib.get_close_matches(str(name), PROBLEMS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(PROBLEMS)}"
        raise ConfigError(f"TASK is {name!r}, and there is no such problem; {hint}")
    return cast("Problem", import_module(PROBLEMS[name]))
