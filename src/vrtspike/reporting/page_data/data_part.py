"""Parts of the report page's section on the data."""

from __future__ import annotations

from typing import TypedDict


class Dot(TypedDict):
    """A dot of a plot with a line from ``low`` to ``high``; values that are None are left out."""

    label: str
    value: float | None
    low: float | None
    high: float | None


class DotPlot(TypedDict):
    """A plot of a row of dots.

    Attributes:
        title: its title.
        axis: title of the axis of the values.
        missing: sentence in place of a plot without dots.
        dots: the dots from the top to the bottom.
    """

    title: str
    axis: str
    missing: str
    dots: list[Dot]


class DataPart(TypedDict):
    """A part of the section on the data.

    Attributes:
        title: name of the data set; empty for none.
        text: sentences on it.
        is_missing: True if the text says that there are no facts.
        plots: plots of it.
        note: note below the plots.
    """

    title: str
    text: str
    is_missing: bool
    plots: list[DotPlot]
    note: str
