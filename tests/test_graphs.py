from __future__ import annotations

import pytest

from vrtspike.graphs import all_before

BEFORE = {"data": [], "train": ["data"], "evaluate": ["train", "data"], "page": ["evaluate"]}


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        (["data"], set()),
        (["train"], {"data"}),
        (["page"], {"evaluate", "train", "data"}),
        (["page", "train"], {"evaluate", "train", "data"}),
        ([], set()),
    ],
)
def test_all_that_comes_before_is_found_at_any_distance(things, expected):
    assert all_before(BEFORE, things) == expected
