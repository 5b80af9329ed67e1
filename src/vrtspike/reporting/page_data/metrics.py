"""Metrics with their means on pages."""

from __future__ import annotations

from typing import TypedDict


class ExtraReference(TypedDict):
    """A further reference of a metric, beside the one that its gain is over.

    Attributes:
        title: name of the reference.
        qualifier: restriction of its values, such as ``grey``; empty for none.
        column: column of its values in the tables of an evaluation.
        mean: mean over the test frames.
    """

    title: str
    qualifier: str
    column: str
    mean: float | None


class MetricOnPage(TypedDict):
    """A metric with its means over frames.

    Attributes:
        name, title: of the metric; they include a protocol other than the default.
        definition: definition of the measured quantity.
        unit: empty for none.
        decimals: shown digits after the decimal point.
        before, after: names of the reference and of the result.
        columns: columns of the reference and of the result in tables.
        reference, result: means of both.
        gain: improvement of the result over the reference.
        extra: a further reference; None without one.
    """

    name: str
    title: str
    definition: str
    unit: str
    decimals: int
    before: str
    after: str
    columns: tuple[str, str]
    reference: float | None
    result: float | None
    gain: float | None
    extra: ExtraReference | None


class MetricMeans(MetricOnPage):
    """A metric with its means over the test frames of an evaluation.

    Attributes:
        larger_is_better: False if smaller values are better.
        gain_interval: interval of the gain; None without one.
        reason: reason for a missing mean; empty for none.
    """

    larger_is_better: bool
    gain_interval: tuple[float, float] | None
    reason: str
