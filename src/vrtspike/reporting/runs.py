"""Everything that a page says of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vrtspike.errors import RunError
from vrtspike.problems import find_problem
from vrtspike.reporting.curves import Curve, training_curves
from vrtspike.reporting.evaluations import Evaluation, read_evaluation
from vrtspike.reporting.origin import Origin, read_origin
from vrtspike.reporting.performance import Performance, read_performance
from vrtspike.runs.names import METRICS_TABLE
from vrtspike.runs.published import read_published
from vrtspike.runs.record import read_record


@dataclass(frozen=True)
class ReportedRun:
    """One run on a page.

    Attributes:
        name: its preset.
        dataset: name of its data set.
        steps: it was trained for.
        uses_spikes: whether its model takes spikes; None where there are none to take.
        curves: what it logged: ``train`` and ``validation``, curves by title.
        evaluation: of the test split, or why there is none.
        performance: its analysis, or why there is none.
        origin: where it comes from.
    """

    name: str
    dataset: str
    steps: int | None
    uses_spikes: bool | None
    curves: Mapping[str, Mapping[str, Curve]]
    evaluation: Evaluation | str
    performance: Performance | str
    origin: Origin

    @property
    def evaluated(self) -> Evaluation | None:
        """The evaluation, if there is one."""
        return None if isinstance(self.evaluation, str) else self.evaluation


def read_run(results: Path, name: str, presets: Path) -> ReportedRun:
    """Read one run below a folder of results.

    Args:
        results: holds ``train/<name>`` and, where they were made, ``evaluate/<name>`` and
            ``performance/<name>``.
        name: the preset.
        presets: folder of the presets.

    Raises:
        RunError: if the run is not there, or a file is damaged.
    """
    folder = results / "train" / name
    run, record = read_published(folder), read_record(folder) or {}
    log = folder / METRICS_TABLE
    if not log.is_file():
        raise RunError(f"{log}: no such file, which every finished run has; train the preset again")
    problem = find_problem(run.settings.TASK)
    times = pd.read_csv(log, usecols=["time"])["time"].dropna().tolist()
    return ReportedRun(
        name,
        _dataset_name(run.identity.dataset, problem.data_folder(run.settings)),
        run.steps,
        run.settings.value("MODEL.USE_SPIKE"),
        training_curves(log, problem.METRICS),
        read_evaluation(results / "evaluate" / name, run.fingerprint),
        read_performance(results / "performance" / name, run.fingerprint),
        read_origin(folder, run, record, times, presets),
    )


def _dataset_name(manifest: str, folder: str) -> str:
    """The name of a data set by its manifest's path, below ``<results>/data``.

    Args:
        manifest: wherever the results stood when the run began.
        folder: of the data of such a preset, as deep as that of the manifest.

    >>> _dataset_name("results/data/demo/k8/dataset.json", "gopro/k32")
    'demo'
    """
    return Path(manifest).parent.parts[-len(Path(folder).parts)]
