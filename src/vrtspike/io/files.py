"""Atomic files: a reader sees the previous contents or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import resource
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from vrtspike.system.errors import RunError, UserError, is_disk_full

JsonValue: TypeAlias = Any
"""A value that JSON can hold, such as a mapping, a list, a text or a number."""

_PROBE = 1 << 16
"""Bytes of a test write that detects a full disk."""
_TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{16}\.(?:tmp(?:\.[^.]+)?|old)")
"""Names of :func:`atomic_path` for unfinished and replaced files."""
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
"""Part of the messages of libraries written in Rust, such as safetensors."""
_ABANDONED_S = 24 * 3600.0
"""Age in seconds from which a temporary file counts as abandoned by a killed process."""
_MAX_EXCHANGES = 100
"""Maximum tries to replace a directory that others replace at the same time."""


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name next to ``path``; on success it is synced and renamed over ``path``.

    The body creates a file or a directory under the temporary name. If it raises, the temporary
    file is removed and ``path`` is unchanged. A replaced directory is renamed first and removed at
    the end; between two renames there is nothing at ``path``. A link to a directory stays, and the
    directory that it names is replaced. Temporary files of killed processes in the same folder are
    removed after a day (:func:`remove_leftovers`), once in each process.

    Args:
        path: path of the finished file or directory; its parent is created.
    """
    target = Path(path)
    if target.is_symlink() and target.is_dir():
        target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers_once(target.parent.absolute())
    # The suffix comes last, because writers such as OpenCV choose the format by it.
    temporary = _temporary_name(target, f"tmp{target.suffix}")
    try:
        with write_errors_name(Path(path), temporary):
            yield temporary
            if temporary.is_dir():
                _replace_directory(temporary, target)
            else:
                _grant_default_mode(temporary)
                _sync(temporary)
                temporary.replace(target)
            _sync(target.parent)
    finally:
        _remove(temporary)


@contextlib.contextmanager
def write_errors_name(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Set the file name of an OSError in the body, which errors of writes lack.

    On a full disk, or at a limit of file sizes, such an error replaces a library's own.

    Args:
        path: path of the file that the body writes.
        temporary: temporary name of the file, which is replaced in errors.
    """
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        _set_file_name(error, path, temporary)
        raise
    except Exception as error:
        # A library may report a full disk as an error of its own.
        space_error = _space_error(error, temporary or path)
        if space_error is None:
            raise
        _set_file_name(space_error, path, temporary)
        raise space_error from error


def _set_file_name(error: OSError, path: Path, temporary: Path | None) -> None:
    """Set the file name of an error that has none or the temporary one; keep any other."""
    if error.filename is None or os.fspath(error.filename) == str(temporary):
        error.filename = os.fspath(path)


def _space_error(error: Exception, path: Path) -> OSError | None:
    """Return the full disk or limit that made a library fail to write a file, if any."""
    match = _SYSTEM_ERROR.search(str(error))
    if match is not None:
        number = int(match[1])
        cause = OSError(number, os.strerror(number))
        if is_disk_full(cause):
            return cause
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and path.is_file() and path.stat().st_size >= limit:
        return OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return disk_full_error(path.parent)


def disk_full_error(folder: Path) -> OSError | None:
    """Return the error of a test write into a folder if disk or quota is full; else None."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        if is_disk_full(error):
            return error
    return None


def _grant_default_mode(temporary: Path) -> None:
    """Give a file that only its owner can read the mode of new files of its folder.

    Some libraries, such as safetensors, create their files for the owner alone, whatever the umask.
    The umask of a process cannot be read without changing it, and a default ACL of the folder
    overrides it; so the mode is copied from a file that is created here.
    """
    if stat.S_IMODE(temporary.stat().st_mode) & 0o077:
        return
    example = _temporary_name(temporary, "tmp")
    try:
        example.touch(exist_ok=False)
        temporary.chmod(stat.S_IMODE(example.stat().st_mode))
    finally:
        example.unlink(missing_ok=True)


def _replace_directory(temporary: Path, target: Path) -> None:
    for folder, _, names in os.walk(temporary):
        for name in names:
            _sync(Path(folder) / name)
        _sync(Path(folder))
    _exchange_directory(temporary, target, _MAX_EXCHANGES)


def _exchange_directory(temporary: Path, target: Path, tries: int) -> None:
    old = _temporary_name(target, "old")
    with contextlib.suppress(FileNotFoundError):  # another writer has just moved it
        if target.exists():
            target.rename(old)
    try:
        temporary.rename(target)
    except OSError as error:
        # Another writer has just put its own there.
        if tries == 1 or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        _exchange_directory(temporary, target, tries - 1)
    _remove(old)


def file_stamp(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return inode, size and time of a file, which change with every write; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of many files
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _temporary_name(target: Path, ending: str) -> Path:
    """Return a random name next to a file.

    The name is short, because file systems limit the length of names, and the file's name may be at
    the limit.
    """
    return target.with_name(f".{secrets.token_hex(8)}.{ending}")


def remove_leftovers(folder: str | os.PathLike[str], *, older_than_s: float = _ABANDONED_S) -> None:
    """Remove temporary files of :func:`atomic_path` of processes that were killed, where possible.

    Args:
        folder: folder of the files; it may be missing.
        older_than_s: age in seconds from which they are removed; 0 only if no other process can be
            writing there.
    """
    latest = time.time() - older_than_s
    for path in list(Path(folder).glob(".*")):
        if not _TEMPORARY_NAME.fullmatch(path.name):
            continue
        # The process has just ended, or the file is another user's.
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime <= latest:
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, a link or a directory, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


_remove_leftovers_once = functools.cache(remove_leftovers)


def atomic_write_bytes(path: str | os.PathLike[str], contents: bytes) -> None:
    """Replace ``path`` by ``contents`` atomically (temporary name, fsync, rename)."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(contents)


@contextlib.contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that replaces ``path`` at the end of the body."""
    with atomic_path(path) as temporary:
        temporary.mkdir()
        yield temporary


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8) atomically."""
    atomic_write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: JsonValue) -> None:
    """Write a JSON file atomically, keys sorted, so that equal values give equal bytes.

    Raises:
        ValueError: if a number is not finite; JSON has no such numbers.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, text + "\n")


def finite_or_null(value: JsonValue) -> JsonValue:
    """Return a JSON value with None for numbers that are not finite.

    >>> finite_or_null({"loss": float("nan"), "step": 3})
    {'loss': None, 'step': 3}
    """
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


def parse_json(text: str | bytes) -> JsonValue:
    """Return the value of a JSON text.

    Raises:
        ValueError: if it is not JSON, or its brackets are nested too deeply for Python.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("brackets nested too deeply") from error


def read_json(path: str | os.PathLike[str]) -> JsonValue:
    """Read a UTF-8 JSON file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not JSON, or its brackets are nested too deeply for Python.
    """
    return parse_json(Path(path).read_bytes().decode("utf-8"))


def read_mapping(path: Path, advice: str) -> dict[str, Any]:
    """Read a JSON file that contains a mapping.

    Args:
        path: path of the file.
        advice: the remedy if it is damaged, such as ``evaluate again``.

    Raises:
        FileNotFoundError: if there is no such file.
        RunError: if the file is damaged or contains something else.
    """
    try:
        contents = read_json(path)
    except ValueError as error:
        raise RunError(f"{path}: damaged, no JSON ({error}); {advice}") from error
    if not isinstance(contents, dict):
        raise RunError(f"{path}: expected a mapping; {advice}")
    return contents


def folder_size(folder: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the number of files below a folder, and their bytes; (0, 0) for a missing folder."""
    count = 0
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # the file may have been removed
                total += os.stat(f"{path}/{name}").st_size  # noqa: PTH116 - of many files
                count += 1
    return count, total


def refuse_pipe(path: str | os.PathLike[str]) -> None:
    """Reject a named pipe, which would block reading.

    Raises:
        OSError: for a pipe or a missing file.
    """
    if stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116 - any kind of path
        raise OSError(errno.EINVAL, "found a pipe (FIFO), expected a file", os.fspath(path))


def placeholder_fault(path: str | os.PathLike[str]) -> str:
    """Describe a Git LFS pointer or a web page in place of the file; empty for other files.

    Raises:
        OSError: if it cannot be read.
    """
    with Path(path).open("rb") as stream:
        head = stream.read(64).lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        return "found a Git LFS pointer, not the file itself; fetch it: git lfs pull"
    if head.startswith((b"<!doctype html", b"<html")):
        return "found a web page that was saved in its place; fetch the file itself"
    return ""


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's contents, in hexadecimal.

    Raises:
        OSError: if it cannot be read, or is a pipe.
    """
    refuse_pipe(path)
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_digest(value: JsonValue) -> str:
    """Return the SHA-256 of a JSON value, independent of the order of its keys.

    >>> json_digest({"a": 1, "b": [2]}) == json_digest({"b": [2], "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    # A name of a file need not be UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
