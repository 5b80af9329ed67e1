"""Where every exposure lies in time and how well its spikes show it: one line for each frame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.exposure import expected_center
from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.files import atomic_write_text
from vrtspike.manifests import read_manifest

COLUMNS = (
    "split",
    "sequence",
    "frame",
    "t0",
    "t1",
    "spike_count",
    "expected_center",
    "center",
    "correlation",
)
"""``t0`` and ``t1`` are spike steps from the beginning of the sequence, ``t1`` excluded; centres
are steps of the exposure. ``center`` and ``correlation`` are empty where nothing can be said."""


def alignment_rows(manifests: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Rows of the table, sorted, from the ingest manifests of a data set.

    A data set without spikes has no exposures and so gives no rows.
    """
    rows = []
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        for frame in manifest["frames"]:
            exposure = frame["spikes"]
            if exposure is None:
                continue
            rows.append(
                {
                    "split": manifest["split"],
                    "sequence": manifest["sequence"],
                    "frame": frame["name"],
                    **{key: exposure[key] for key in ("t0", "t1", "center", "correlation")},
                    "spike_count": exposure["count"],
                    "expected_center": expected_center(exposure["steps"]),
                }
            )
    return sorted(rows, key=lambda row: (row["split"], row["sequence"], row["t0"]))


def write_alignment_table(path: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the table as CSV."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    atomic_write_text(path, text.getvalue())
