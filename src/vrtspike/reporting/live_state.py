"""The state of a run while it trains, as plain data: values, curves, the last pictures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.run_logs import RunLogs, read_live_logs, require_metrics
from vrtspike.analysis.run_measurements import Speed, measure_run
from vrtspike.config.tasks import Metric, find_task
from vrtspike.io.files import finite_or_null
from vrtspike.reporting.page_data import Curves
from vrtspike.reporting.performance_data import RATES, curves_of, loss_terms, training_curves
from vrtspike.runs.folder import read_record
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.published import PublishedRun
from vrtspike.runs.validation_pictures import find_pictures
from vrtspike.system.errors import RunError

RUNNING = "running"


@dataclass(frozen=True)
class Snapshot:
    """The state of a run.

    Attributes:
        name: name of the preset.
        fingerprint: digest that identifies the run.
        status: ``running``, ``interrupted``, ``failed`` or ``finished``.
        failure: the error of a failed run; empty for none.
        step: finished optimiser steps.
        total_steps: steps of the whole training; None if unknown.
        losses: values of the last step, by titles of curves: the loss, and its terms if there are
            several; not a number where a loss was not finite.
        learning_rate: rate of the last step; None before the first.
        samples_per_second: speed of the last steps, smoothed; None before the first.
        speed: times of the last steps, where they are logged.
        remaining_s: seconds to the last step at the mean speed since the last start, validations
            included; None if unknown, or if no training runs.
        idle_s: seconds since the last record; None without a record.
        validation: last and best value of each metric of the validations, in words by its label.
        curves: of ``train`` and ``validation``, by title (:func:`training_curves`).
        pictures: files of the last pictures by name.
        pictures_step: step of the last pictures.
    """

    name: str
    fingerprint: str
    status: str
    failure: str
    step: int
    total_steps: int | None
    losses: Mapping[str, float]
    learning_rate: float | None
    samples_per_second: float | None
    speed: Speed
    remaining_s: float | None
    idle_s: float | None
    validation: Mapping[str, str]
    curves: Curves
    pictures: Mapping[str, Path]
    pictures_step: int

    @property
    def has_ended(self) -> bool:
        """True if its own record says that the training has ended."""
        return self.status != RUNNING


class LiveRun:
    """Reader of the state of a run, which may be called repeatedly.

    Args:
        folder: a run folder (``runs/<preset>/<fingerprint>``) or a published result folder.

    Raises:
        RunError: if it is not the folder of a run, or its ``metrics.jsonl`` is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = RunIdentity.read(folder)
        self._metrics = find_task(self.identity.settings.TASK).METRICS
        require_metrics(folder)

    def read_record(self) -> dict[str, Any]:
        """Return the run's ``run.json``.

        Raises:
            RunError: if it is missing or damaged.
        """
        record = read_record(self.folder)
        if record is None:
            raise RunError(f"{self.folder}: its run.json has gone; was the run set aside?")
        return record

    def has_ended(self) -> bool:
        """Return whether the training has ended, by its own record."""
        return bool(self.read_record()["status"] != RUNNING)

    def read(self, now: float | None = None) -> Snapshot:
        """Read the current state.

        Args:
            now: seconds since the epoch; None for the current time.

        Raises:
            RunError: if a file of the run is damaged.
        """
        # The status is read before the logs, so that the logs of a run that has ended are complete.
        record = self.read_record()
        logs = read_live_logs(self.folder)
        moment = time.time() if now is None else now
        run = PublishedRun.from_record(self.identity, record)
        curves = training_curves(logs, self._metrics)
        curves["train"] |= curves_of(logs.train, RATES)
        measurements = measure_run(logs, run.micro_steps, self._metrics)
        pictures = find_pictures(self.folder)
        pictures_step = max(pictures, default=0)
        rows = logs.train.tail(1).to_dict("records")
        last: Mapping[Any, Any] = rows[0] if rows else {}
        return Snapshot(
            name=self.identity.name,
            fingerprint=self.identity.fingerprint,
            status=record["status"],
            failure=str(record.get("failure", "")),
            step=int(last.get("step", record.get("step", 0))),
            total_steps=record.get("total_steps"),
            losses=_losses(last),
            learning_rate=finite_or_null(last.get("lr")),
            samples_per_second=finite_or_null(last.get("samples_per_second")),
            speed=measurements.speed,
            remaining_s=_remaining_s(record, logs.train),
            idle_s=_idle_s(logs, moment),
            validation=_validation(logs.validation, self._metrics),
            curves=curves,
            pictures=pictures.get(pictures_step, {}),
            pictures_step=pictures_step,
        )


def _losses(row: Mapping[Any, Any]) -> dict[str, float]:
    """Return the loss of a step, and its terms if there are several."""
    if "loss" not in row:
        return {}
    titles = {"loss": "loss", **loss_terms(row)}
    return {title: _number(row[name]) for name, title in titles.items()}


def _number(value: float | None) -> float:
    """Return a logged number; NaN for null, which stands for values that are not finite."""
    return math.nan if value is None else float(value)


def _remaining_s(record: Mapping[str, Any], train: pd.DataFrame) -> float | None:
    """Return the seconds to the end, at the mean speed of the steps since the last start."""
    total = record.get("total_steps")
    starts = record.get("starts")
    if record["status"] != RUNNING or not total or not starts:
        return None
    steps = train[train["step"] > starts[-1]["step"]]
    if len(steps) < 2:
        return None
    first = steps.iloc[0]
    last = steps.iloc[-1]
    seconds_per_step = (last["time"] - first["time"]) / (last["step"] - first["step"])
    return float((total - last["step"]) * seconds_per_step)


def _idle_s(logs: RunLogs, now: float) -> float | None:
    """Return the seconds since the last record of a step or of a validation."""
    times = [table["time"].dropna() for table in (logs.train, logs.validation)]
    last = [float(column.max()) for column in times if not column.empty]
    if not last:
        return None
    return max(0.0, now - max(last))


def _validation(table: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, str]:
    """Return the metrics that were validated with a finite value, in the order of their task."""
    texts = {}
    for name, metric in metrics.items():
        if name not in table:
            continue
        values = table.set_index("step")[name].astype(float)
        finite = values[values.map(math.isfinite)]
        if finite.empty:
            continue
        last = metric.text(float(finite.iloc[-1]))
        best = metric.best(finite)
        best_step = int(finite.index[finite == best][0])
        texts[metric.label] = f"{last}, best {metric.text(best)} after step {best_step}"
    return texts
