"""The prepared store of a download, prepared where there is none yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from vrtspike.errors import DataError
from vrtspike.files import json_digest
from vrtspike.locks import lock_file
from vrtspike.sst.area import Area
from vrtspike.sst.opening import find_files
from vrtspike.sst.prepare import prepare
from vrtspike.sst.store import PREPARED, PreparedStore
from vrtspike.sst.years import Years

DATA_ROOT = "VRTSPIKE_ERA5"
"""Environment variable: the folder of the downloaded files."""
DEFAULT_ROOT = "data/era5"
PREPARED_FOLDER = "prepared"
_ELSEWHERE = "name another folder for what is prepared (prepared in dataset_params)"


def data_root() -> Path:
    """The folder of the downloaded files: $VRTSPIKE_ERA5, or ``data/era5``."""
    return Path(os.environ.get(DATA_ROOT) or DEFAULT_ROOT)


def prepared_store(
    root: str | Path,
    area: Area,
    resolution: float,
    years: Years | None = None,
    folder: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> PreparedStore:
    """The store of a region at a resolution; it is prepared if the files are new or changed.

    Other files, regions, resolutions or years make another store; none is removed. Processes that
    ask at the same time wait for the one that prepares.

    Args:
        root: a file, or a folder of files, as ERA5 delivers them.
        area: the region.
        resolution: degrees of a cell.
        years: the splits; None divides the whole years that there are.
        folder: where stores stand; None: ``prepared`` in the folder of the files.
        tell: told when something has to be prepared.

    Raises:
        UserError: as :func:`~vrtspike.sst.prepare.prepare`.
    """
    files = find_files(root)
    folder = Path(folder) if folder is not None else files[0].parent / PREPARED_FOLDER
    output = folder / f"{area.slug}-{resolution:g}deg-{_key(files, area, resolution, years)}.json"
    found = _ready(output)
    if found is not None:
        return found
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(output.with_suffix(".lock").open("w"))
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be written ({error.strerror or error}); {_ELSEWHERE}"
            ) from error
        lock_file(lock.fileno(), Path(lock.name), wait=True, elsewhere=_ELSEWHERE)
        found = _ready(output)
        if found is not None:
            return found
        if tell is not None:
            tell(f"preparing {output}: {area.name} at {resolution:g} degrees from {root}")
        return prepare(root, area, resolution, output, years)


def _ready(manifest: Path) -> PreparedStore | None:
    """The store of a manifest, if both are there."""
    try:
        store = PreparedStore(manifest)
    except DataError:
        return None
    return store if store.folder.is_dir() else None


def _key(files: list[Path], area: Area, resolution: float, years: Years | None) -> str:
    """What tells one store from another: the files by name, size and date, and what is made."""
    present = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    edges = [list(area.lon), list(area.lat)]
    made = [edges, float(resolution), years.as_json() if years else None, PREPARED.schema]
    return json_digest([present, made])[:12]
