"""Summaries of evaluations: round trip, seal, other versions and other files."""

from __future__ import annotations

import re

import pytest

from vrtspike.analysis.evaluation_files import read_summary, summary_damage, write_summary
from vrtspike.io.files import write_json
from vrtspike.system.errors import RunError

CONTENTS = {
    "schema": 1,
    "preset": "a",
    "fingerprint": "0123456789ab",
    "metrics": {"psnr": {"restored": 29.18}},
    "worst": [],
}


def test_a_summary_comes_back_as_it_was_written(tmp_path):
    write_summary(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_summary_without_a_seal_is_read(tmp_path):
    write_json(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_value_that_was_changed_by_hand_is_noticed(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, CONTENTS)
    path.write_text(path.read_text().replace("29.18", "39.99"))
    with pytest.raises(RunError, match=r"summary\.json: changed .* evaluate again"):
        read_summary(path)
    assert re.match(rf"{path}: changed after the evaluation .* trusted$", summary_damage(path))


@pytest.mark.parametrize(
    ("contents", "fault"),
    [
        ({"schema": 99}, "found schema 99, expected 1: no summary of an evaluation"),
        ({}, "no summary of an evaluation, fingerprint is missing"),
        ({"schema": 1}, "no summary of an evaluation, fingerprint is missing"),
    ],
)
def test_a_file_of_another_version_or_kind_is_named(contents, fault, tmp_path):
    path = tmp_path / "summary.json"
    write_json(path, contents)
    with pytest.raises(RunError, match=rf"{path}: {fault}.*; remove it and evaluate again"):
        read_summary(path)
    assert summary_damage(path).startswith(f"{path}: {fault}")


@pytest.mark.parametrize("text", ["{", "[]", "[" * 200_000 + "]" * 200_000])
def test_other_files_than_summaries_are_refused(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(RunError, match=r"summary\.json: .*; evaluate again"):
        read_summary(tmp_path / "summary.json")
    path = tmp_path / "summary.json"
    assert summary_damage(path) == f"{path} is damaged"
