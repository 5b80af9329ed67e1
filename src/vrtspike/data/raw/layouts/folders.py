"""Listing of folders of raw files: files by the number of their frame, and unread files."""

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
"""Maximum faults of one kind in a sequence that are listed one by one."""

FOREIGN = frozenset(
    {"__MACOSX", "@eaDir", "#recycle", "lost+found", "$RECYCLE.BIN", "System Volume Information"}
)
"""Folders that archives, network storage and file systems put among those of a user."""


def frame_key(name: str) -> str:
    """Return the key by which the names of a frame's files are matched.

    Leading zeros do not count, nor does the Unicode form: macOS writes names in the form NFD, in
    which an accent is a character of its own, most other systems in NFC.

    >>> frame_key("frame_0020")
    'frame_20'
    """
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", unicodedata.normalize("NFC", name))


_Entry = TypeVar("_Entry")


def match_frames(table: Mapping[str, _Entry], names: Collection[str]) -> dict[str, _Entry]:
    """Return the entries of a table by the names of their frames, whatever the leading zeros.

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
"""Clause on two names that are printed alike and are not the same."""


def look_alike(one: str, other: str) -> bool:
    """Return whether two names are the same text, perhaps in different Unicode forms."""
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


@contextlib.contextmanager
def naming_closed_folders() -> Iterator[None]:
    """Turn an OSError of the body, on a folder that cannot be listed, into a DataError.

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
    names: dict[str, str],
    faults: list[str],
) -> dict[str, str]:
    """Return files of a folder by the names of their frames, without stray files.

    Args:
        root: the data set's folder.
        place: beginning of the files' paths below it: a folder, perhaps with a prefix of names.
        suffixes: suffixes of the files, in small letters; capitals are read as well.
        names: names of frames by :func:`frame_key`; extended. The first folder gives the names, so
            that ``1.png`` and ``000001.dat`` belong together.
        faults: extended by two files for a frame, and by misnamed files or folders.

    Raises:
        DataError: if the folder cannot be listed.
    """
    place, _, prefix = place.rpartition("/")
    if not (root / place).is_dir():
        misspelt = in_other_case(root, place)
        if misspelt is not None:
            faults.append(f"found the folder {misspelt}, expected {place}; rename it")
        return {}
    files: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name in _visible_names(root / place, prefix):
        is_read = name.lower().endswith(suffixes)
        stem = name[len(prefix) :]
        stem = stem.rpartition(".")[0] if is_read else stem.partition(".")[0]
        if prefix and "-" in stem:
            continue  # another sequence, whose name begins like this one's
        number = frame_key(stem)
        if not is_read:
            others.append((number, name))
            continue
        if not is_text(name):
            faults.append(f"{place}/{shown(name)}: the name is not UTF-8; rename the file")
            continue
        frame = names.setdefault(number, stem)
        path = f"{place}/{name}"
        if frame in files:
            reason = UNICODE_FORMS if look_alike(files[frame], path) else ""
            faults.append(f"two files for frame {frame}: {files[frame]} and {path}{reason}")
        else:
            files[frame] = path
    unread = [
        name for number, name in others if _is_misnamed(root / place / name, number, names, files)
    ]
    if unread:
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        array = " with an array spk (T, H, W)" if suffixes == SPIKE_SUFFIXES else ""
        faults.append(
            f"{place} holds {shown(unread[0])}{more}, not read; expected {' or '.join(suffixes)}"
            f"{array}: convert, rename or remove"
        )
    return files


def _is_misnamed(
    path: Path, number: str, names: Mapping[str, str], files: Mapping[str, str]
) -> bool:
    """Return whether a file that is not read has the name of a frame without a file.

    Args:
        path: path of the file.
        number: number of the frame, by :func:`frame_key`.
        names: names of frames by number.
        files: files by the name of their frame.
    """
    is_frame = number.isdecimal() or number in names
    return is_frame and names.get(number) not in files and not path.is_dir()


def _visible_names(folder: Path, prefix: str) -> list[str]:
    """Return sorted names in a folder that begin with a prefix and are not hidden."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    return sorted(name for name in names if name.startswith(prefix) and name[0] != ".")


@naming_closed_folders()
def in_other_case(root: Path, place: str) -> str | None:
    """Return a path that differs from a missing one in capitals only, or None.

    Raises:
        DataError: if a folder cannot be listed.
    """
    path = ""
    for part in place.split("/"):
        if not (root / path / part).exists():
            if not (root / path).is_dir():
                return None
            with os.scandir(root / path) as entries:
                names = [entry.name for entry in entries]
            similar_names = [name for name in names if name.casefold() == part.casefold()]
            if not similar_names:
                return None
            part = similar_names[0]
        path = f"{path}/{part}".lstrip("/")
    return path if path != place else None


def may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a broken link, which is a fault of a sequence."""
    if entry.is_symlink():
        return not os.path.isfile(entry.path)  # noqa: PTH113
    return entry.is_dir()
