"""Packing of a run in half precision as the bundled weights."""

from __future__ import annotations

from pathlib import Path

from vrtspike.io.files import atomic_path, folder_size
from vrtspike.reporting.packing import pack_run
from vrtspike.restoration.loading import load
from vrtspike.runs.file_names import RUN_RECORD, STATISTICS
from vrtspike.runs.folder import read_record
from vrtspike.runs.named_models import BUNDLED_NAMES, bundled_folder
from vrtspike.runs.published import read_finished
from vrtspike.system.errors import RunError

MAX_BYTES = 8_000_000
"""Largest size of a pack, all files together: every clone and every wheel holds them."""
_LICENSE = "other"


def bundle_weights(
    folder: Path, *, output: Path | None = None, evaluation: Path | None = None
) -> Path:
    """Pack a finished and evaluated run in half precision, in place of the former weights.

    Args:
        folder: the run's result folder, such as ``results/train/general``.
        output: folder to replace; None is that of the bundled weights of this name.
        evaluation: folder of the run's evaluation; None is ``results/evaluate/<preset>``.

    Returns:
        the replaced folder.

    Raises:
        RunError: if the run is not finished, not evaluated, damaged or of another preset, its
            statistics lack the limits of recordings, a weight is too large for half precision, or
            the pack is larger than :data:`MAX_BYTES`. The former weights stay.
    """
    record = read_record(folder)
    status = "finished" if record is None else record["status"]
    if status not in (None, "finished"):
        raise RunError(
            f"{folder / RUN_RECORD}: the run is {status}, expected finished; end its training first"
        )
    run = read_finished(folder)
    if run.name not in BUNDLED_NAMES:
        names = " or ".join(BUNDLED_NAMES)
        raise RunError(f"{folder}: a run of the preset {run.name}, expected one of {names}")
    target = output or bundled_folder(run.name)
    with atomic_path(target) as temporary:
        missing = pack_run(folder, temporary, _LICENSE, half=True, evaluation=evaluation)
        if missing:
            raise RunError(f"{folder}: {'; '.join(missing)}")
        _, size = folder_size(temporary)
        if size > MAX_BYTES:
            raise RunError(
                f"{folder}: packed, {size:,} bytes, expected at most {MAX_BYTES:,}; train a "
                "smaller network (MODEL.NAF)"
            )
        if load(temporary, device="cpu").limits is None:
            raise RunError(
                f"{folder / STATISTICS}: no limits of recordings, by which restoring warns; remove "
                "the data set's manifest (dataset.json) and train again"
            )
    return target
