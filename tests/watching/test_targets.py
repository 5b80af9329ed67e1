from __future__ import annotations

import pytest

from vrtspike.watching.targets import listing, unknown_target

MESSAGE = (
    "MissingRuleException:\nNo rule to produce {} (if you use input functions make sure that they "
    "don't raise unexpected exceptions)."
)
NAMES = ["all", "demo", "report", "train_demo", "train_low_memory", "evaluate_low_memory"]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("trian_demo", "; did you mean train_demo? "),
        ("train_lowmemory", "; did you mean train_low_memory? "),
        ("reports", "; did you mean report? "),
        ("rprt", "; did you mean report? "),
        ("xyz/q.json", "; snakemake --list"),
    ],
)
def test_the_nearest_targets(asked, hint):
    answer = unknown_target(MESSAGE.format(asked), NAMES)
    assert answer.startswith(f"no target and no file of this workflow: {asked}{hint}")
    assert answer.endswith("snakemake --list shows them all")


def test_other_messages_are_left_alone():
    assert unknown_target("MissingInputException: no such file", NAMES) is None


def test_targets_come_before_the_rules_behind_them():
    rules = [("ingest", "Check", True), ("compare", None, False), ("a", "A", True)]
    rules += [("train_x", "Train", False), ("all", "All", False)]
    assert listing(rules, ["all", "train_x"]) == [
        "all (All)", "train_x (Train)", "compare", "a (A)", "ingest (Check)",
    ]  # fmt: skip
