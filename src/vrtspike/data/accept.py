"""The gate between checking and computing: nothing faulty comes through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vrtspike.errors import DataError, list_faults
from vrtspike.files import read_json


def accept(manifests: Sequence[str | Path], bins: Sequence[int] = ()) -> dict[str, Any]:
    """Let a data set pass only if none of its sequences has a fault.

    Args:
        manifests: paths of all ingest manifests.
        bins: voxel bins in use; exposures with fewer spike frames are faults.

    Returns:
        ``{"schema": 1, "sequences": ["train/GOPR...", ...]}``: deliberately no more, so that a
        change in one sequence does not look like a change to all.

    Raises:
        DataError: with every fault of every sequence.
    """
    faults: list[str] = []
    names: list[str] = []
    for path in manifests:
        manifest = read_json(path)
        name = f"{manifest['split']}/{manifest['sequence']}"
        names.append(name)
        faults += [f"{name}: {fault}" for fault in manifest["faults"]]
        for k in bins:
            short = [f["name"] for f in manifest["frames"] if f["spike_frames"] < k]
            if short:
                faults.append(
                    f"{name}: {len(short)} exposures hold fewer than DATA.K = {k} spike frames, "
                    f"first frame {short[0]}"
                )
    if not names:
        raise DataError("no ingest manifests given: there is nothing to accept")
    if faults:
        raise DataError(
            list_faults(
                "the data set has faults, nothing was written",
                faults,
                "Mend or remove these files (or their sequences) and run again.",
            )
        )
    return {"schema": 1, "sequences": sorted(names)}
