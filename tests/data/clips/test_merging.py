"""Training sequences that are held out for validation.

The expected names are sorted by the output of ``printf NAME | sha256sum``.
"""

from __future__ import annotations

import string

import pytest

from vrtspike.data.clips.merging import held_out


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["a"], []),
        (["a", "c"], ["c"]),
        (string.ascii_lowercase[:21], ["s", "u"]),
    ],
)
def test_a_tenth_of_the_names_with_the_smallest_digests(names, expected):
    assert held_out(list(names)) == expected
    assert held_out(list(names)[::-1]) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x_00", "x_01", "b"], "b"),  # x_00 has a smaller digest
        (["x_00", "x_01", "z_00", "z_01", "z_02"], "x_00"),  # z_02 has the smallest
    ],
)
def test_recordings_with_few_sequences_come_first(names, expected):
    assert held_out(names) == [expected]
