"""The table of a data set's exposures: their times, and the match of spikes and sharp frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from vrtspike.data.manifests import INGESTED
from vrtspike.io.manifests import read_manifest

ExposureKey = Literal["t0", "t1", "count", "sharp", "center", "correlation"]

EXPOSURE_COLUMNS: dict[str, ExposureKey] = {
    "t0": "t0",
    "t1": "t1",
    "spike_count": "count",
    "expected_center": "sharp",
    "center": "center",
    "correlation": "correlation",
}
"""Columns of an exposure, and their keys in ingest manifests."""
COLUMNS = ("split", "sequence", "frame", *EXPOSURE_COLUMNS)
"""``t0`` and ``t1`` are spike steps from the beginning of the sequence, ``t1`` excluded; centres
are steps of the exposure. ``center`` and ``correlation`` are empty if nothing can be said."""


def alignment_rows(manifests: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Collect the exposures of all sequences, sorted by sequence and time.

    Args:
        manifests: paths of all ingest manifests.

    Returns:
        rows of :data:`COLUMNS`; none of a data set without spikes.
    """
    rows: list[dict[str, Any]] = []
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        for frame in manifest["frames"]:
            exposure = frame["spikes"]
            if exposure is None:
                continue
            row: dict[str, Any] = {
                "split": manifest["split"],
                "sequence": manifest["sequence"],
                "frame": frame["name"],
            }
            for column, key in EXPOSURE_COLUMNS.items():
                row[column] = exposure[key]
            rows.append(row)
    return sorted(rows, key=lambda row: (row["split"], row["sequence"], row["t0"]))
