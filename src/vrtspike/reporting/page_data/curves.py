"""Curves of trainings on pages, and the data of the page of curves."""

from __future__ import annotations

from typing import TypedDict


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


class CurvesRun(TypedDict):
    """A run of the page of curves."""

    name: str
    curves: Curves


class CurvesData(TypedDict):
    """The data of the page of curves; ``training_note`` is below the curves."""

    runs: list[CurvesRun]
    training_note: str
