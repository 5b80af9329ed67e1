"""What a problem brings to the pipeline, and the table of problems.

A preset names its problem (``TASK``). The stages that train, analyse, compare and report know no
problem by name: they ask the module that this table names. A new problem is a folder with such a
module and one line here (docs/extending.md).
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from vrtspike.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import torch

    from vrtspike.config.run_schema import RunSettings
    from vrtspike.metrics import Metric
    from vrtspike.runs.identity import RunIdentity
    from vrtspike.runs.published import PublishedRun
    from vrtspike.training.distributed import Ranks
    from vrtspike.training.one_process import Trainable
    from vrtspike.training.workers import Workers

DEFAULT = "deblurring"
"""The problem of a preset that names none."""

PROBLEMS = {
    DEFAULT: "vrtspike.deblurring.problem",
    "sst": "vrtspike.sst.problem",
}
"""The modules, by what TASK calls them."""


class Problem(Protocol):
    """What such a module holds.

    Planning imports it, so it imports PyTorch and other large packages within functions only. The
    code that a function uses makes its stage stale, so each stage calls one function.
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

    def prepare(self, settings: Any, manifest: Path, tell: Callable[[str], None]) -> None:  # noqa: ANN401
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

    def statistics(self, run: RunIdentity) -> Mapping[str, Any]:
        """What the inputs of a run are standardised with: JSON, kept beside its weights.

        ``dataset`` and ``dataset_digest`` are among it.
        """

    def build(self, run: RunIdentity, ranks: Ranks, workers: Workers) -> Trainable:
        """Model, task and batches for one process of a training."""

    def evaluate(
        self,
        weights: Path,
        run: PublishedRun,
        dataset: Path,
        output: Path,
        device: torch.device,
        progress: Callable[[int, int], None],
        *,
        error_map: bool,
    ) -> list[str]:
        """Measure trained weights on the test split and draw pictures of the result.

        Writes the files of :mod:`vrtspike.evaluation.names`, ``summary.json`` last.

        Returns:
            what a person reads of it, line by line.
        """


def every_metric() -> dict[str, Metric]:
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
