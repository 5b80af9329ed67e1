"""Looking into folders of raw files: what lies there, by number, and what nobody would read."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.system.errors import DataError, is_text, shown

MAX_LINES = 3
"""Faults of one kind in a sequence that are listed one by one."""

FOREIGN = frozenset(
    {"__MACOSX", "@eaDir", "#recycle", "lost+found", "$RECYCLE.BIN", "System Volume Information"}
)
"""Folders that archives, network storage and file systems put among those of a user."""


def frame_key(name: str) -> str:
    """The key by which the names of a frame's files are matched.

    Leading zeros do not count, nor whether an accent is a character of its own: macOS writes names
    in Unicode's form NFD, most other systems in NFC.

    >>> frame_key("frame_0020")
    'frame_20'
    """
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", unicodedata.normalize("NFC", name))


_Of = TypeVar("_Of")


def match_frames(table: Mapping[str, _Of], names: Collection[str]) -> dict[str, _Of]:
    """The entries of a table by the names of their frames, which may have other leading zeros.

    Spreadsheets turn ``000012`` into ``12``. Entries that several frames would match, and those of
    no frame, keep their names.

    >>> match_frames({"12": "a", "13": "b"}, ["000012", "000014"])
    {'000012': 'a', '13': 'b'}
    """
    frames = _by_key(names)
    entries = _by_key(table)
    result = {}
    for name, entry in table.items():
        key = frame_key(name)
        is_clear = len(frames.get(key, ())) == 1 and len(entries[key]) == 1
        result[frames[key][0] if is_clear else name] = entry
    return result


def _by_key(names: Collection[str]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for name in names:
        keys.setdefault(frame_key(name), []).append(name)
    return keys


UNICODE_FORMS = (
    ", whose names look alike: an accent is part of its letter in one (Unicode NFC) and a "
    "character of its own in the other (NFD); remove or rename one"
)
"""Why two names that are printed alike are not the same."""


def look_alike(one: str, other: str) -> bool:
    """Whether two names are the same text, perhaps in different forms of Unicode."""
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


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
        known: names of frames by :func:`frame_key`; filled. The folder that is asked for
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
        number = frame_key(stem)
        if not is_read:
            others.append((number, name))
        elif not is_text(name):
            faults.append(f"{place}/{shown(name)}: the name is not UTF-8; rename the file")
        elif (frame := known.setdefault(number, stem)) in found:
            twins = found[frame], f"{place}/{name}"
            why = UNICODE_FORMS if look_alike(*twins) else ""
            faults.append(f"two files for frame {frame}: {twins[0]} and {twins[1]}{why}")
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
