"""Listing of folders of raw files: files by the number of their frame, and unread files."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES
from vrtspike.system.errors import DataError, is_text, printable

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
def listing_errors() -> Iterator[None]:
    """Turn an OSError of the body, on a folder that cannot be listed, into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename}: cannot be listed ({error.strerror}); fix its permissions or those "
            "of the folders above it"
        ) from error


@dataclass(frozen=True)
class FolderListing:
    """The files of frames in a folder.

    Attributes:
        files: paths by the names of the frames.
        faults: misnamed files or folders, and two files for a frame.
    """

    files: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@listing_errors()
def list_frames(
    root: Path, path_prefix: str, suffixes: tuple[str, ...], frame_names: Collection[str] = ()
) -> FolderListing:
    """List the files of a folder by the names of their frames, without stray files.

    Args:
        root: the data set's folder.
        path_prefix: start of the files' paths below it: a folder, perhaps with a prefix of
            names; empty if there is none.
        suffixes: suffixes of the files, in small letters; capitals are read as well.
        frame_names: names of frames that other folders gave; a file that matches one by
            :func:`frame_key` belongs to it, as ``000001.dat`` to ``1``.

    Raises:
        DataError: if the folder cannot be listed.
    """
    if not path_prefix:
        return FolderListing()
    folder, _, prefix = path_prefix.rpartition("/")
    if not (root / folder).is_dir():
        misspelt = find_other_case(root, folder)
        if misspelt is None:
            return FolderListing()  # a folder may be missing
        return FolderListing(faults=[f"found the folder {misspelt}, expected {folder}; rename it"])
    stems: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in sorted(path.name for path in (root / folder).iterdir()):
        if not name.startswith(prefix) or name.startswith("."):
            continue
        is_read = name.lower().endswith(suffixes)
        rest = name[len(prefix) :]
        stem = rest.rpartition(".")[0] if is_read else rest.partition(".")[0]
        if prefix and "-" in stem:
            continue  # another sequence, whose name begins like this one's
        if is_read:
            stems[name] = stem
        else:
            others[name] = stem
    listing = _files_by_frame(folder, stems, frame_names)
    misnamed = _misnamed_files(others, frame_names, listing.files)
    unread = [name for name in misnamed if not (root / folder / name).is_dir()]
    if unread:
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        array = " with an array spk (T, H, W)" if suffixes == SPIKE_SUFFIXES else ""
        listing.faults.append(
            f"{folder} holds {printable(unread[0])}{more}, not read; expected "
            f"{' or '.join(suffixes)}{array}: convert, rename or remove"
        )
    return listing


def _files_by_frame(
    folder: str, stems: Mapping[str, str], frame_names: Collection[str]
) -> FolderListing:
    """Return files by the names of their frames.

    Args:
        folder: folder that holds them.
        stems: names of their frames as written, by their own names.
        frame_names: names of frames that other folders gave.
    """
    frames = {frame_key(name): name for name in frame_names}
    files: dict[str, str] = {}
    faults: list[str] = []
    for name, stem in stems.items():
        path = f"{folder}/{name}"
        if not is_text(name):
            faults.append(f"{folder}/{printable(name)}: the name is not UTF-8; rename the file")
            continue
        frame = frames.setdefault(frame_key(stem), stem)
        if frame in files:
            reason = UNICODE_FORMS if look_alike(files[frame], path) else ""
            faults.append(f"two files for frame {frame}: {files[frame]} and {path}{reason}")
        else:
            files[frame] = path
    return FolderListing(files, faults)


def _misnamed_files(
    stems: Mapping[str, str], frame_names: Collection[str], files: Collection[str]
) -> list[str]:
    """Return files that are not read though they have the names of frames without a file.

    Args:
        stems: names of the files that are not read, without suffixes, by their whole names.
        frame_names: names of frames that other folders gave.
        files: names of frames that have a file.
    """
    expected = {frame_key(frame) for frame in frame_names}
    present = {frame_key(frame) for frame in files}
    misnamed = []
    for name, stem in stems.items():
        key = frame_key(stem)
        is_frame = key.isdecimal() or key in expected
        if is_frame and key not in present:
            misnamed.append(name)
    return misnamed


@listing_errors()
def find_other_case(root: Path, missing_path: str) -> str | None:
    """Return a path that differs from a missing one in capitals only, or None.

    Raises:
        DataError: if a folder cannot be listed.
    """
    path = ""
    for part in missing_path.split("/"):
        if not (root / path / part).exists():
            if not (root / path).is_dir():
                return None
            names = [entry.name for entry in (root / path).iterdir()]
            similar_names = [name for name in names if name.casefold() == part.casefold()]
            if not similar_names:
                return None
            part = similar_names[0]
        path = f"{path}/{part}".lstrip("/")
    return path if path != missing_path else None


def visible_entries(folder: str | Path, foreign: set[str]) -> list[os.DirEntry[str]]:
    """Return the entries of a folder that are neither hidden nor foreign, in no order.

    Args:
        folder: path of the folder.
        foreign: gets the paths of the foreign entries (:data:`FOREIGN`).

    Raises:
        OSError: if it cannot be listed.
    """
    visible = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in FOREIGN:
                foreign.add(entry.path)
            elif not entry.name.startswith("."):
                visible.append(entry)
    return visible


def may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a broken link, which is a fault of a sequence."""
    if entry.is_symlink():
        return not os.path.isfile(entry.path)  # noqa: PTH113
    return entry.is_dir()
