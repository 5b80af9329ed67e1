"""Results that are damaged or missing behind others that stand: they are made again."""

from __future__ import annotations

from pathlib import Path

from vrtspike.errors import DataError
from vrtspike.manifests import ManifestKind, read_manifest


def is_damaged(path: str | Path, kind: ManifestKind) -> bool:
    """Whether a manifest is there and cannot be used; one that is missing is not damaged."""
    if not Path(path).exists():
        return False
    try:
        read_manifest(path, kind)
    except DataError:
        return True
    return False


def is_missed(results: Path, file: str, later: str | None = None) -> bool:
    """Whether a result is missing that is to be there.

    Snakemake makes nothing that is missing before a result that is there. But a job that fails, or
    is killed, loses its results and the reason for which it ran; what was made of them stands as
    before.

    Args:
        results: folder of all results.
        file: the result, below it.
        later: pattern of what is made of it; while there is none, nobody misses the file.
    """
    return not (results / file).exists() and (later is None or any(results.glob(later)))
