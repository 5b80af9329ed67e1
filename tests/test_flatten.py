"""Settings as lines."""

from __future__ import annotations

from vrtspike.flatten import flat_settings


def test_one_line_per_key_with_json_values():
    settings = {"TRAIN": {"OPTIM": {"LR": 2e-4, "BETAS": [0.9, 0.99]}, "EMA": None}, "SEED": 1}
    assert flat_settings(settings) == {
        "SEED": "1",
        "TRAIN.EMA": "null",
        "TRAIN.OPTIM.BETAS": "[0.9, 0.99]",
        "TRAIN.OPTIM.LR": "0.0002",
    }


def test_independent_of_the_order_of_keys():
    assert list(flat_settings({"B": 1, "A": {"D": 2, "C": 3}})) == ["A.C", "A.D", "B"]


def test_an_empty_section_is_no_line():
    assert flat_settings({"A": {}}) == {}
