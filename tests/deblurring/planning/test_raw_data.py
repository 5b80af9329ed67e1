"""Inspection of raw data while planning."""

from __future__ import annotations

import shutil

import pytest

from tests.deblurring.planning.workflows import RecordedMessages, plan_of, process, workflow_of
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring.planning.raw_data import RawData, RawState
from vrtspike.deblurring_settings import DeblurringSettings


def raw_data(config: DeblurringConfig, is_dry_run: bool = True) -> tuple[RawData, list[str]]:
    messages = RecordedMessages()
    return RawData(config, process(is_dry_run=is_dry_run), messages), messages.messages


def test_a_data_set_is_inspected_once(root):
    config = workflow_of(str(root))
    plan = plan_of(config)
    version = plan.names_version("raw")
    assert version is not None
    shutil.copytree(root / "train/a", root / "train/c")
    assert plan.names_version("raw") == version
    assert plan_of(config).names_version("raw") != version


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_missing_data_give_a_message_and_make_a_plan_fail(tmp_path, is_dry_run):
    config, messages = workflow_of(str(tmp_path / "none")), RecordedMessages()
    data = RawData(config, process(is_dry_run=is_dry_run), messages)
    assert data.survey(config.data_source("p")) is None
    assert messages.exit_status == is_dry_run
    (message,) = messages.messages
    assert "Set DATA.ROOT" in message
    assert "snakemake --cores all demo" in message


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_faults_of_names_are_reported_in_a_dry_run_only(root, is_dry_run):
    shutil.rmtree(root / "train/a/blur")
    shutil.copytree(root / "test/b", root / "train/c")
    config = workflow_of(str(root))
    data, messages = raw_data(config, is_dry_run)
    assert [s["name"] for s in data.survey(config.data_source("p"))["sequences"]] == ["c", "b"]
    assert len(messages) == is_dry_run
    if is_dry_run:
        assert "train/a: no blurry frames" in messages[0]
        assert "stops before computing" in messages[0]


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("made", ["made/sources.txt"]),
        ("simulated", ["simulated/sources/train/s.txt"]),
        ("mine", ["mine/calibrated.txt"]),
        ("raw", []),
    ],
)
def test_generated_data_are_made_before(root, name, before):
    config = workflow_of(name)
    data_source = config.data_source("p")
    assert list(data_source.sources) == before
    assert (plan_of(config).names_version(data_source.name) is None) == bool(before)


def test_a_calibration_folder_without_calibration_is_raw():
    settings = DeblurringSettings.model_validate({"DATA": {"ROOT": "mine"}})
    keys = workflow_schema().model_validate({"CALIBRATE": {"ROOT": "mine"}})
    assert DeblurringConfig(WorkflowConfig(keys, {"p": settings})).data_source("p").kind == "raw"


def states(config: DeblurringConfig, **facts: bool) -> dict[str, RawState]:
    data = RawData(config, process(**facts), RecordedMessages())
    return data.states(config.data_source("p"))


def test_the_state_of_raw_files_changes_with_them(root):
    config = workflow_of(str(root))
    before = states(config)
    version = source_version(root, find_sequence(RawFolder(root), "train/a"), root / "none.json")
    assert before["train/a"] == RawState(version, 4 * len("picture"))
    assert states(config) == before
    (root / "train/a/sharp/000002.png").write_text("another")
    after = states(config)
    assert after["train/a"].version != before["train/a"].version
    assert after["test/b"] == before["test/b"]


def test_faulty_missing_and_generated_sequences_have_no_state(root, tmp_path):
    shutil.copytree(root / "train/a", root / "train/c")
    shutil.rmtree(root / "train/c/blur")
    assert sorted(states(workflow_of(str(root)))) == ["test/b", "train/a"]
    assert states(workflow_of(str(tmp_path / "none"))) == {}
    assert states(workflow_of(str(root)), is_main=False) == {}
    assert states(workflow_of("made")) == {}  # generated data change with their jobs
