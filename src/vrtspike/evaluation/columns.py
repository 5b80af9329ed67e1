"""Columns of the tables of an evaluation, and the references of the images that are measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vrtspike.metrics.metric import ImageMetric

KEYS = ["protocol", "sequence", "frame"]
"""Columns that identify a row of ``frames.csv``."""

Kind = Literal["blurry", "restored", "spikes", "sharp", "gray"]
"""The images of one frame.

These are the blurry input, the restored frame, the picture from spikes alone, the sharp frame, and
the sharp frame in grey.
"""

REFERENCES: Mapping[Kind, Kind] = {"blurry": "sharp", "restored": "sharp", "spikes": "gray"}
"""The reference of each image that is measured."""


def columns_of(metric: ImageMetric) -> dict[Kind, str]:
    """Return columns of a metric by the image that is measured."""
    blurry, restored = metric.columns
    return {"blurry": blurry, "restored": restored, "spikes": f"{metric.name}_spikes"}
