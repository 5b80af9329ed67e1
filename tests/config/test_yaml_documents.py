"""Values by key: merged layers."""

from __future__ import annotations

import pytest

from vrtspike.config.yaml_documents import document_from_tree, overlay


@pytest.mark.parametrize(
    ("lower", "upper", "merged"),
    [
        ({"A": {"B": 1, "C": 2}}, {"A": {"B": 3}}, {"A": {"C": 2, "B": 3}}),
        ({"A": {"B": 1}}, {"A": None}, {"A": None}),
        ({"A": None}, {"A": {"B": 1}}, {"A": {"B": 1}}),
        ({"A": {"B": 1}}, {"A": {}}, {"A": {"B": 1}}),
        ({"A": None}, {"A": {}}, {"A": {}}),
        ({"A": [1, 2]}, {"A": [3]}, {"A": [3]}),
    ],
)
def test_sections_are_merged_and_other_values_replaced(lower, upper, merged) -> None:
    assert overlay(document_from_tree(lower, "a"), document_from_tree(upper, "b")).tree == merged
