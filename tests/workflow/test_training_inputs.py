"""Weights that a training reads, and reasons for training again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vrtspike.workflow.training_staleness import training_inputs

FORCED = "results/train/p/weights.safetensors"


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Ask for the inputs of preset ``p``; returns them, forced files and notices."""
    monkeypatch.chdir(tmp_path)

    def ask(retrained: tuple[str, ...] = (), **answers: Any):
        answers = {"changed_code": [], "change": "", "code": None, "continuation": None} | answers
        trainings: Any = SimpleNamespace(
            changed_code=lambda preset: answers["changed_code"],
            require_files=lambda preset, retrain: required.append(retrain),
            result=lambda preset: Path("results/train", preset),
            describe_changes=lambda preset: answers["change"],
            continuation_note=lambda preset: answers["continuation"],
            code_note=lambda preset: answers["code"],
            weights=lambda preset, origin: {"KEY": Path(f"{origin}.pth")},
        )
        required: list[bool] = []
        forced: dict[str, str] = {}
        notices: list[str] = []
        inputs = training_inputs(trainings, "p", retrained, forced.__setitem__, notices.append)
        assert inputs == ([Path("trained.pth")], [Path("downloaded.pth")])
        return forced, notices, required

    return ask


@pytest.fixture
def result(planned) -> None:
    """A published result."""
    Path(FORCED).parent.mkdir(parents=True)
    Path(FORCED).touch()


def test_a_missing_result_is_made(planned):
    assert planned() == ({FORCED: "no result yet"}, [], [False])


@pytest.mark.usefixtures("result")
def test_a_result_is_made_again_only_if_it_is_stale_or_asked_for(planned):
    assert planned() == ({}, [], [False])
    assert planned(change="SEED 1 -> 2", continuation="longer") == (
        {FORCED: "SEED 1 -> 2"},
        ["longer"],
        [False],
    )
    changed = {"changed_code": ["train.py"], "code": "other code"}
    assert planned(**changed) == ({}, ["other code"], [False])
    assert planned(("p",), **changed) == ({FORCED: "asked for"}, [], [True])
    assert planned(("p",)) == ({}, ["p: its code has not changed; RETRAIN does nothing"], [False])
    # Where the former code is unknown, the training is asked for.
    assert planned(("p",), changed_code=None) == ({FORCED: "asked for"}, [], [True])
