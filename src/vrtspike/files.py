"""Atomic files: a reader sees the previous contents or the new ones, never a part."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; on success it is synced and renamed over ``path``.

    The body creates a file or a directory under the temporary name. If the body raises, what it
    wrote is removed and ``path`` stays as it was. A directory that stood at ``path`` is moved
    aside first and removed after the rename.

    Args:
        path: where the finished file or directory shall stand; its parent is created.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept last because writers such as OpenCV choose the format by it.
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.tmp{target.suffix}")
    try:
        yield temporary
        if temporary.is_dir():
            _replace_directory(temporary, target)
        else:
            _sync_file(temporary)
            temporary.replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        # A write that fails does not say where; nobody knows the temporary name.
        if error.filename is None or os.fspath(error.filename) == str(temporary):
            error.filename = os.fspath(target)
        raise
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def _replace_directory(temporary: Path, target: Path) -> None:
    for folder, _, names in os.walk(temporary):
        for name in names:
            _sync_file(Path(folder) / name)
        _sync_directory(Path(folder))
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    if target.exists():
        target.rename(old)
    temporary.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def atomic_write_bytes(path: str | os.PathLike[str], contents: bytes) -> None:
    """Replace ``path`` by ``contents`` atomically (temporary name, fsync, rename)."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(contents)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8) atomically."""
    atomic_write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write a JSON file atomically, keys sorted, so that equal values give equal bytes.

    Raises:
        ValueError: if a number is not finite; JSON has no such numbers.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, text + "\n")


def finite_or_null(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with None for numbers that are not finite, which JSON cannot say.

    >>> finite_or_null({"loss": float("nan"), "step": 3})
    {'loss': None, 'step': 3}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite_or_null(item) for item in value]
    return value


def read_json(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Read a UTF-8 JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def folder_bytes(folder: str | os.PathLike[str]) -> int:
    """Bytes of all files below a folder; 0 where there is none, and for a file that goes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(place) / name).stat().st_size
    return total


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's contents, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def json_digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """SHA-256 of a JSON value, independent of the order of its keys.

    >>> json_digest({"a": 1, "b": [2]}) == json_digest({"b": [2], "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
