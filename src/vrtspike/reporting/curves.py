"""Curves of a run over its steps, thinned to what a page can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from vrtspike.metrics import Metric
from vrtspike.reporting.evaluations import finite

POINTS = 800


@dataclass(frozen=True)
class Curve:
    """Values over steps.

    Attributes:
        steps: of each point the last of the averaged steps.
        values: their means; None where none of them is finite.
        width: so many logged steps are averaged in a point.
    """

    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    width: int


def thin(steps: pd.Series, values: pd.Series, points: int = POINTS) -> Curve:
    """Average neighbouring values until at most ``points`` are left.

    Args:
        steps: in order.
        values: as many; what is not finite enters no mean.
        points: at least 1.
    """
    numbers = pd.to_numeric(values).astype(float).replace([np.inf, -np.inf], np.nan)
    width = max(1, -(-len(numbers) // points))
    groups = np.arange(len(numbers)) // width
    means = numbers.groupby(groups).mean()
    last = steps.groupby(groups).last()
    rounded = (finite(float(value)) for value in means)
    return Curve(
        tuple(int(step) for step in last),
        tuple(None if value is None else float(f"{value:.5g}") for value in rounded),
        width,
    )


def curves_of(table: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Curve]:
    """The curves of some columns that a table has and that hold a number.

    Args:
        table: with a column ``step``.
        columns: titles by column.

    Returns:
        curves by title.
    """
    ordered = table.sort_values("step", kind="stable")
    return {
        title: thin(rows["step"], rows[column])
        for column, title in columns.items()
        if column in table and not (rows := ordered.dropna(subset=[column])).empty
    }


def training_curves(path: Path, metrics: Mapping[str, Metric]) -> dict[str, dict[str, Curve]]:
    """What a run logged: ``train`` and ``validation``, curves by title.

    Args:
        path: the run's ``metrics.csv``.
        metrics: of the run's problem.
    """
    table = pd.read_csv(path)
    train, validation = (table[table["kind"] == kind] for kind in ("train", "validation"))
    names = [name for name in map(str, table.columns) if name.startswith("losses.")]
    # A single term is the loss itself.
    parts = {name: f"loss: {name.partition('.')[2]}" for name in names if len(names) > 1}
    named = {"loss": "loss", **parts, "grad_norm": "gradient norm", "lr": "learning rate"}
    measured = {metric.name: metric.label for metric in metrics.values()}
    return {"train": curves_of(train, named), "validation": curves_of(validation, measured)}
