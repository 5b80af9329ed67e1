"""The length that a Matroska file (.mkv, .webm) announces, which FFmpeg does not check."""

from __future__ import annotations

from pathlib import Path

_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = b"\x18\x53\x80\x67"
_HEAD = 4096
"""Bytes that are read; the two elements are at the beginning."""


def announced_bytes(path: Path) -> int | None:
    """Return length of a Matroska file by its header; None for other files, and if it is not given.

    A file is an EBML header and a segment, each with its identity, its size and its contents.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head.startswith(_EBML):
        return None
    size, start = _read_size(head, len(_EBML))
    if size is None:
        return None
    segment = start + size
    if head[segment : segment + len(_SEGMENT)] != _SEGMENT:
        return None
    size, start = _read_size(head, segment + len(_SEGMENT))
    return None if size is None else start + size


def _read_size(head: bytes, place: int) -> tuple[int | None, int]:
    """Return the size of an element, None if unknown, and the place of its contents.

    The number of leading zeros of the first byte is the number of bytes that follow it; a size of
    ones is unknown.

    >>> _read_size(bytes([0x40, 0x05]), 0)
    (5, 2)
    >>> _read_size(bytes([0xFF]), 0)
    (None, 1)
    """
    length = 9 - head[place].bit_length() if place < len(head) else 9
    if length > 8 or place + length > len(head):
        return None, place
    # Behind the leading zeros and a one, 7 bits for each byte are left.
    all_ones = 2 ** (7 * length) - 1
    size = int.from_bytes(head[place : place + length]) & all_ones
    return (None if size == all_ones else size), place + length
