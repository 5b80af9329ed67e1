"""Messages of errors that a user can mend."""

from __future__ import annotations

import errno
import os

import pytest

from vrtspike.system.errors import (
    describe_full_disk,
    first_few,
    is_disk_full,
    is_text,
    list_faults,
    printable,
)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "free space"),
        (errno.EFBIG, "raise the limit (ulimit -f)"),
        (errno.EACCES, None),
    ],
)
def test_a_full_disk_and_a_limit_of_files_have_their_remedy(number, remedy):
    error = OSError(number, os.strerror(number))
    assert is_disk_full(error) == (remedy is not None)
    if remedy is not None:
        assert describe_full_disk(error).endswith(f"({os.strerror(number)}); {remedy}")


@pytest.mark.parametrize(
    ("limit", "lines"),
    [
        (None, ["  - a", "  - b", "  - c"]),
        (3, ["  - a", "  - b", "  - c"]),
        (2, ["  - a", "  - b", "  ... and 1 more"]),
    ],
)
def test_a_list_of_faults_ends_with_the_number_of_the_others(limit, lines):
    message = list_faults("file", ["a", "b", "c"], "Fix them.", limit=limit)
    assert message.splitlines() == ["file (3):", *lines, "Fix them."]


def test_as_many_names_as_the_limit_are_all_listed():
    assert first_few(["a", "b"], limit=2) == "a, b"
    assert first_few(["a", "b", "c"], limit=2) == "a, b, and 1 more"


def test_names_that_are_not_utf_8_can_be_printed():
    latin = os.fsdecode(b"caf\xe9")
    assert not is_text(latin)
    assert printable(latin).encode("ascii") == b"caf\\xe9"
    assert is_text("café")
    assert printable("café") == "café"
