"""Checks of presets and their data sets while planning."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from tests.deblurring.planning.workflows import RecordedNotices, workflow_of
from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.preset_data import (
    checked_files,
    require_sequences_to_hold_out,
    require_spikes,
    statistics_wildcards,
    unused_data_notes,
)
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError


def raw_data(workflow: DeblurringWorkflow) -> RawData:
    return RawData(workflow, lambda: True, RecordedNotices())


def wildcards(workflow: DeblurringWorkflow) -> dict[str, str | int]:
    return statistics_wildcards(workflow, raw_data(workflow), "p")


def test_a_preset_with_spikes_is_refused_without_spike_files(root):
    workflow = workflow_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        require_spikes(workflow, raw_data(workflow), "p")
    elsewhere = root.with_name("root_spike_seq") / "train/a/spike"
    elsewhere.mkdir(parents=True)
    (elsewhere / "1.dat").touch()
    with pytest.raises(ConfigError, match=r"lie in \S+/root_spike_seq: set DATA\.SPIKE_ROOT"):
        require_spikes(workflow, raw_data(workflow), "p")
    plain = workflow_of(str(root), USE_SPIKE=False)
    require_spikes(plain, raw_data(plain), "p")


@pytest.mark.parametrize("place", ["raw", "simulated"])
def test_a_single_training_sequence_is_refused_if_some_are_to_be_held_out(root, place):
    workflow = workflow_of(place, USE_SPIKE=False)
    fault = rf"preset p, {place}: DATA.VALIDATION is held_out, and a single training sequence"
    with pytest.raises(ConfigError, match=fault):
        require_sequences_to_hold_out(workflow, raw_data(workflow), "p")
    for other in (
        workflow_of(place, data={"VALIDATION": "test"}, USE_SPIKE=False),
        workflow_of(place, max_steps=0, PRETRAINED="general"),
    ):
        require_sequences_to_hold_out(other, raw_data(other), "p")


@pytest.mark.parametrize(("on_error", "refused"), [("stop", False), ("exclude", True)])
def test_faulty_sequences_count_if_the_gate_stops_at_them(root, on_error, refused):
    (root / "train/c/blur").mkdir(parents=True)
    workflow = workflow_of("raw", data={"ON_ERROR": on_error})
    expectation = contextlib.nullcontext()
    if refused:
        expectation = pytest.raises(ConfigError, match="a single training sequence")
    with expectation:
        require_sequences_to_hold_out(workflow, raw_data(workflow), "p")


def test_missing_and_generated_data_are_not_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("nowhere", "made"):
        workflow = workflow_of(place)
        require_sequences_to_hold_out(workflow, raw_data(workflow), "p")


def test_a_preset_is_checked_before_the_job_of_its_data_set(root):
    (root / "train/a").rename(root / "train/c")
    workflow = workflow_of(str(root), USE_SPIKE=False)
    with pytest.raises(ConfigError, match="a single training sequence"):
        wildcards(workflow)
    shutil.copytree(root / "train/c", root / "train/d")
    assert wildcards(workflow) == {"dataset": "raw", "bins": 32}
    # Files of two presets with the same data are listed once.
    files = checked_files(workflow, raw_data(workflow), ["p", "p"])
    assert files == ["results/data/raw/alignment.csv", "results/data/raw/k32/accepted.json"]
    with_spikes = workflow_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        wildcards(with_spikes)
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        checked_files(with_spikes, raw_data(with_spikes), ["p"])


def test_a_preset_on_generated_data_gives_a_notice_if_the_user_has_data(root):
    def notes(root: str) -> list[str]:
        keys = {"DEMO": {"ROOT": "made"}, "DATA": {"ROOT": root}}
        presets = {
            name: Settings.model_validate({"DATA": {"ROOT": path}})
            for name, path in (("demo", "made"), ("mine", root))
        }
        workflow = DeblurringWorkflow(Workflow(workflow_schema().model_validate(keys), presets))
        return [*unused_data_notes(workflow, "demo"), *unused_data_notes(workflow, "mine")]

    (note,) = notes(str(root))
    assert note.startswith("preset demo takes generated data (made, its own DATA.ROOT), not those")
    assert f"of config/config.yaml ({root})" in note
    assert notes("nowhere") == notes("made") == []
