"""Numbers in file names, their usual step and the order of names."""

from __future__ import annotations

import pytest

from vrtspike.data.raw.numbering import find_gaps, frame_numbers, frame_order


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["0009", "0010"], [9, 10]),
        (["a_9", "a_10"], [9, 10]),
        (["cam2_09", "cam2_10"], [9, 10]),
        (["a_9", "b_10"], None),
        (["a_9", "a_10", "b_11"], [9, 10, None]),
        (["8", "9", "10", "cover", "11_1"], [8, 9, 10, None, None]),
        # Such as times; and of another base.
        (["1.8", "1.9", "2.0"], None),
        ([f"{number:02x}" for number in range(16)], None),
        (["9_left", "10_left"], None),
        (["night", "day"], None),
        ([], None),
    ],
)
def test_numbers_alone_or_after_a_common_prefix(names, numbers):
    assert frame_numbers(names) == numbers


@pytest.mark.parametrize(
    ("numbers", "step", "places"),
    [
        ([1, 2, 3, 5, 6], 1, [(3, 5)]),
        ([10, 20, 30], 10, []),
        ([8, 16, 24, 40, 48, 56, 80], 8, [(24, 40), (56, 80)]),
        ([1, 3, 4, 6], 2, [(3, 4)]),
        ([1, 2, 4], 1, [(2, 4)]),
        ([5, 5], 1, [(5, 5)]),
        ([5], 1, []),
        ([1, 3, "4b", 5, 6], 1, [(1, 3), (3, "4b"), ("4b", 5)]),
    ],
)
def test_the_usual_step_and_what_differs_from_it(numbers, step, places):
    names = [f"frame_{number}" for number in numbers]
    expected = [(f"frame_{a}", f"frame_{b}") for a, b in places]
    assert find_gaps(names, frame_numbers(names)) == (step, expected)


def test_a_given_step_and_names_that_are_no_numbers():
    assert find_gaps(["10", "20"], [10, 20], step=1) == (1, [("10", "20")])
    assert find_gaps(["a", "b", "d"], None) == (1, [])


def test_every_two_names_have_an_order():
    names = ["a", "a01b", "a1b", "a2", "a10", "b", "\u00b2"]  # the last is no decimal digit
    backwards = names[::-1]
    for sequence in (names, backwards):
        assert sorted(sequence, key=frame_order) == names
