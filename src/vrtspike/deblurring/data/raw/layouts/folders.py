"""Looking into folders of raw files: what lies there, by number, and what nobody would read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.system.errors import DataError, is_text, shown

FOREIGN = frozenset(
    {"__MACOSX", "@eaDir", "#recycle", "lost+found", "$RECYCLE.BIN", "System Volume Information"}
)
"""Folders that archives, network storage and file systems put among those of a user."""


def without_zeros(name: str) -> str:
    """A name of a frame as it is without leading zeros.

    >>> without_zeros("frame_0020")
    'frame_20'
    """
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", name)


@contextlib.contextmanager
def naming_closed_folders() -> Iterator[None]:
    """A folder in the body that cannot be looked into becomes an error that a user can fix.

    Raises:
        DataError: naming it.
    """
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename}: cannot be listed ({error.strerror}); fix its permissions or those "
            "of the folders above it"
        ) from error


@naming_closed_folders()
def numbered(
    root: Path,
    place: str,
    suffixes: tuple[str, ...],
    known: dict[str, str],
    faults: list[str],
) -> dict[str, str]:
    """Files of a folder by the names of their frames; a stray text file or two does not count.

    Args:
        root: the data set's folder.
        place: how the files' paths below it begin, with a folder and perhaps of a name.
        suffixes: of the files, in small letters; capitals are read as well.
        known: names of frames by name :func:`without_zeros`; filled. The folder that is asked for
            first gives the names, so that ``1.png`` and ``000001.dat`` belong together.
        faults: what is wrong is added: two files for a frame, and files or a folder that somebody
            must have meant and that are not read.

    Raises:
        DataError: if the folder cannot be listed.
    """
    place, _, prefix = place.rpartition("/")
    if not (root / place).is_dir():
        if (alike := in_other_case(root, place)) is not None:
            faults.append(f"found the folder {alike}, expected {place}; rename it")
        return {}
    found: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    with os.scandir(root / place) as entries:
        names = sorted(e.name for e in entries if e.name.startswith(prefix) and e.name[0] != ".")
    for name in names:
        is_read = name.lower().endswith(suffixes)
        stem = name[len(prefix) :]
        stem = stem.rpartition(".")[0] if is_read else stem.partition(".")[0]
        if prefix and "-" in stem:
            continue  # another sequence, whose name begins like this one's
        number = without_zeros(stem)
        if not is_read:
            others.append((number, name))
        elif not is_text(name):
            faults.append(f"{place}/{shown(name)}: the name is not UTF-8; rename the file")
        elif (frame := known.setdefault(number, stem)) in found:
            faults.append(f"two files for frame {frame}: {found[frame]} and {place}/{name}")
        else:
            found[frame] = f"{place}/{name}"
    # Only the name of a frame is one that somebody must have meant.
    unread = [
        name
        for number, name in others
        if (number.isdecimal() or number in known)
        and known.get(number) not in found
        and not (root / place / name).is_dir()
    ]
    if unread:
        more = f" and {len(unread) - 1} more" if unread[1:] else ""
        array = " with an array spk (T, H, W)" if suffixes == SPIKE_SUFFIXES else ""
        faults.append(
            f"{place} holds {shown(unread[0])}{more}, not read; expected {' or '.join(suffixes)}"
            f"{array}: convert, rename or remove"
        )
    return found


@naming_closed_folders()
def in_other_case(root: Path, place: str) -> str | None:
    """What stands in place of a missing path, such as ``train/a/Blur``; None for nothing.

    Raises:
        DataError: if a folder cannot be listed.
    """
    path = ""
    for part in place.split("/"):
        if not (root / path / part).exists():
            if not (root / path).is_dir():
                return None
            with os.scandir(root / path) as entries:
                alike = [e.name for e in entries if e.name.casefold() == part.casefold()]
            if not alike:
                return None
            part = alike[0]
        path = f"{path}/{part}".lstrip("/")
    return path if path != place else None


def may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link that leads nowhere: nobody means that to be left out."""
    return not os.path.isfile(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH113
