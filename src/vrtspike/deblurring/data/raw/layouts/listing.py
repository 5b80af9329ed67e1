"""Folders looked at with errors that say what to mend."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from vrtspike.errors import DataError


def is_folder(path: Path) -> bool:
    """Whether a folder exists.

    Raises:
        DataError: if a folder above it may not be entered.
    """
    return _reached(path, Path.is_dir)


def is_file(path: Path) -> bool:
    """Whether a file exists; raises as :func:`is_folder`."""
    return _reached(path, Path.is_file)


@contextlib.contextmanager
def listing(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder, in any order.

    Raises:
        DataError: if it cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            yield entries
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be listed ({error.strerror}); mend its permissions"
        ) from error


def may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link that leads nowhere: nobody means that to be left out."""
    return not os.path.isfile(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH113


def _reached(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except PermissionError as error:
        raise DataError(
            f"{path}: cannot be reached ({error.strerror}); mend the permissions of the folders "
            "above it"
        ) from error
