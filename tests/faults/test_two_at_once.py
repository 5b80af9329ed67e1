"""Two Snakemakes that come at the same time: each ends with the right results."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.faults.processes import started
from tests.faults.results import leftovers, results

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.timeout(900)]

WAITING = "waiting for another snakemake"


def test_on_one_checkout_the_second_waits_and_finds_everything_done(after, undisturbed):
    project = after("raw data")
    call = project.command("--cores", "2", "all")
    with started(project, *call) as one, started(project, *call) as other:
        assert (one.wait(), other.wait()) == (0, 0), one.text + other.text
        said = [one.text, other.text]
    assert sorted(WAITING in text for text in said) == [False, True]
    (waited,) = (text for text in said if WAITING in text)
    assert "Nothing to be done" in waited
    assert results(project.folder) == undisturbed.results
    assert leftovers(project.folder) == []


def test_the_second_goes_on_when_what_they_share_is_made(after, undisturbed):
    project = after("raw data")
    project.write("config/presets/other.yaml", "BASE: tiny\nTRAIN: {MAX_STEPS: 2}\n")
    long = project.command("--cores", "2", "train_tiny")
    short = project.command("--cores", "2", "train_other")
    with started(project, *long) as one, contextlib.ExitStack() as stack:
        with one.held("survey"):
            other = stack.enter_context(started(project, *short))
            other.wait_for(lambda: WAITING in other.text)
        # The short training begins and ends before the long one takes a step.
        with one.held("rank"):
            assert other.wait() == 0, other.text
        assert one.wait() == 0, one.text
    begun = {
        preset: json.loads((project.folder / f"results/train/{preset}/run.json").read_text())
        for preset in ("tiny", "other")
    }
    assert begun["other"]["updated"] < begun["tiny"]["updated"]
    shutil.rmtree(project.folder / "results/train/other")
    project.make("all")
    assert results(project.folder) == undisturbed.results


def test_who_waits_can_be_ended_and_who_is_killed_is_not_waited_for(after):
    project = after("data")
    call = project.command("--cores", "2", "train_tiny")
    with started(project, *call) as one, one.held("rank"):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with started(project, *call) as other:
                other.wait_for(lambda other=other: WAITING in other.text)
                other.process.send_signal(number)
                assert other.wait() != 0
                assert other.orphans() == []
        assert one.process.poll() is None
        with started(project, *call) as other:
            other.wait_for(lambda: WAITING in other.text)
            for process in one.alive():
                process.kill()
            assert other.wait() == 0, other.text
    assert leftovers(project.folder) == []


def test_two_checkouts_with_the_same_runs_train_once(after, undisturbed, tmp_path):
    project = after("data")
    second = undisturbed.copy(tmp_path / "second", "data")
    runs = ["--config", f"RUNS={tmp_path / 'runs'}"]
    call = project.command("--cores", "2", "train_tiny", *runs)
    with started(project, *call) as one, started(second, *call) as other:
        assert (one.wait(), other.wait()) == (0, 0), one.text + other.text
    weights = "results/train/tiny/weights.safetensors"
    expected = (undisturbed.project.folder / weights).read_bytes()
    assert [(each.folder / weights).read_bytes() for each in (project, second)] == [expected] * 2
    (record,) = (tmp_path / "runs").glob("tiny/*/run.json")
    assert len(json.loads(record.read_text())["starts"]) == 1
    assert not [*Path(tmp_path / "runs").rglob(".*")]
