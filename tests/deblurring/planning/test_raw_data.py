"""Inspection of raw data while planning."""

from __future__ import annotations

import shutil

import pytest

from tests.deblurring.planning.workflows import RecordedNotices, workflow_of
from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.data_source import RawFolder
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.raw_data import RawData, RawState, names_version
from vrtspike.settings import Settings


def raw_data(workflow: Workflow, dry: bool = True) -> tuple[RawData, list[str]]:
    notices = RecordedNotices()
    return RawData(workflow, lambda: dry, notices), notices.messages


def test_a_data_set_is_inspected_once(root):
    workflow = workflow_of(str(root))
    dataset = workflow.data_source("p")
    data, notices = raw_data(workflow)
    version = names_version(data.survey(dataset))
    shutil.copytree(root / "train/a", root / "train/c")
    assert (names_version(data.survey(dataset)), notices) == (version, [])
    assert names_version(raw_data(workflow)[0].survey(dataset)) != version


@pytest.mark.parametrize("dry", [True, False])
def test_missing_data_give_a_notice_and_make_a_plan_fail(tmp_path, dry):
    workflow, notices = workflow_of(str(tmp_path / "none")), RecordedNotices()
    data = RawData(workflow, lambda: dry, notices)
    assert names_version(data.survey(workflow.data_source("p"))) is None
    assert notices.exit_status == dry
    (notice,) = notices.messages
    assert "Set DATA.ROOT" in notice
    assert "snakemake --cores all demo" in notice


@pytest.mark.parametrize("dry", [True, False])
def test_faults_of_names_are_reported_in_a_dry_run_only(root, dry):
    shutil.rmtree(root / "train/a/blur")
    shutil.copytree(root / "test/b", root / "train/c")
    workflow = workflow_of(str(root))
    data, notices = raw_data(workflow, dry)
    assert [s["name"] for s in data.survey(workflow.data_source("p"))["sequences"]] == ["c", "b"]
    assert len(notices) == dry
    if dry:
        assert "train/a: no blurry frames" in notices[0]
        assert "stops before computing" in notices[0]


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
    workflow = workflow_of(name)
    data, dataset = raw_data(workflow)[0], workflow.data_source("p")
    assert list(dataset.sources) == before
    assert (names_version(data.survey(dataset)) is None) == bool(before)


def test_a_calibration_folder_without_calibration_is_raw():
    settings = Settings.model_validate({"DATA": {"ROOT": "mine"}})
    keys = workflow_schema().model_validate({"CALIBRATE": {"ROOT": "mine"}})
    assert DeblurringWorkflow(Workflow(keys, {"p": settings})).data_source("p").kind == "raw"


def states(workflow: Workflow, **options) -> dict[str, RawState]:
    return RawData(workflow, lambda: True, RecordedNotices(), **options).states(
        workflow.data_source("p")
    )


def test_the_state_of_raw_files_changes_with_them(root):
    workflow = workflow_of(str(root))
    before = states(workflow)
    version = source_version(root, find_sequence(RawFolder(root), "train/a"), root / "none.json")
    assert before["train/a"] == RawState(version, 4 * len("picture"))
    assert states(workflow) == before
    (root / "train/a/sharp/000002.png").write_text("another")
    after = states(workflow)
    assert after["train/a"].version != before["train/a"].version
    assert after["test/b"] == before["test/b"]


def test_faulty_missing_and_generated_sequences_have_no_state(root, tmp_path):
    shutil.copytree(root / "train/a", root / "train/c")
    shutil.rmtree(root / "train/c/blur")
    assert sorted(states(workflow_of(str(root)))) == ["test/b", "train/a"]
    assert states(workflow_of(str(tmp_path / "none"))) == {}
    assert states(workflow_of(str(root)), measures=False) == {}
    assert states(workflow_of("made")) == {}  # generated data change with their jobs
