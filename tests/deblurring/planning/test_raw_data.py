"""Inspection of raw data while planning."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning.deblurring_workflow import DeblurringWorkflow
from vrtspike.deblurring.planning.raw_data import RawData, RawState
from vrtspike.settings import Settings
from vrtspike.system.errors import ConfigError
from vrtspike.workflow.messages import EndMessages


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """Two sequences; only names count."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "raw"
    for split, name in (("train", "a"), ("test", "b")):
        for kind in ("blur", "sharp"):
            for frame in ("000001.png", "000002.png"):
                path = folder / split / name / kind / frame
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("picture")
    return folder


def workflow_of(root: str, **model) -> DeblurringWorkflow:
    settings = Settings.model_validate({"DATA": {"ROOT": root}, "MODEL": model})
    keys = {
        "DEMO": {"ROOT": "made"},
        "SIMULATE": {"ROOT": "simulated", "SEQUENCES": SOURCES},
        "CALIBRATE": {"ROOT": "mine", "DATA": "recorded"},
    }
    return DeblurringWorkflow(Workflow(workflow_schema().model_validate(keys), {"p": settings}))


class RecordedNotices(EndMessages):
    """Notices that are kept in a list."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.exit_status = 0
        self.add = self.messages.append


SOURCES = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": "s"}]


def raw_data(workflow: Workflow, dry: bool = True) -> tuple[RawData, list[str]]:
    notices = RecordedNotices()
    return RawData(workflow, lambda: dry, notices), notices.messages


def test_a_data_set_is_inspected_once(root):
    workflow = workflow_of(str(root))
    dataset = workflow.data_source("p")
    data, notices = raw_data(workflow)
    version = data.names_version(dataset)
    shutil.copytree(root / "train/a", root / "train/c")
    assert (data.names_version(dataset), notices) == (version, [])
    assert raw_data(workflow)[0].names_version(dataset) != version


@pytest.mark.parametrize("dry", [True, False])
def test_missing_data_give_a_notice_and_make_a_plan_fail(tmp_path, dry):
    workflow, notices = workflow_of(str(tmp_path / "none")), RecordedNotices()
    assert RawData(workflow, lambda: dry, notices).names_version(workflow.data_source("p")) is None
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
    assert (data.names_version(dataset) is None) == bool(before)


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
    version = source_version(root, find_sequence(root, "train/a", "blur"), root / "none.json")
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


def test_a_preset_with_spikes_is_refused_without_spike_files(root):
    workflow = workflow_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        raw_data(workflow)[0].require_spikes("p", workflow.preset("p"))
    elsewhere = root.with_name("root_spike_seq") / "train/a/spike"
    elsewhere.mkdir(parents=True)
    (elsewhere / "1.dat").touch()
    with pytest.raises(ConfigError, match=r"lie in \S+/root_spike_seq: set DATA\.SPIKE_ROOT"):
        raw_data(workflow)[0].require_spikes("p", workflow.preset("p"))
    plain = workflow_of(str(root), USE_SPIKE=False)
    raw_data(plain)[0].require_spikes("p", plain.preset("p"))


@pytest.mark.parametrize("place", ["raw", "simulated"])
def test_a_single_training_sequence_is_refused_if_some_are_to_be_held_out(root, place):
    workflow = workflow_of(place, USE_SPIKE=False)
    preset = workflow.preset("p")
    fault = rf"preset p, {place}: DATA.VALIDATION is held_out, and a single training sequence"
    with pytest.raises(ConfigError, match=fault):
        raw_data(workflow)[0].require_sequences_to_hold_out("p", preset)
    data = preset.DATA.model_copy(update={"VALIDATION": "test"})
    chosen = preset.model_copy(update={"DATA": data})
    raw_data(workflow)[0].require_sequences_to_hold_out("p", chosen)
    start = {"MODEL": {"PRETRAINED": "general"}, "TRAIN": {"MAX_STEPS": 0}}
    raw_data(workflow)[0].require_sequences_to_hold_out("p", Settings.model_validate(start))


@pytest.mark.parametrize(("on_error", "refused"), [("stop", False), ("exclude", True)])
def test_faulty_sequences_count_if_the_gate_stops_at_them(root, on_error, refused):
    (root / "train/c/blur").mkdir(parents=True)
    settings = Settings.model_validate({"DATA": {"ROOT": "raw", "ON_ERROR": on_error}})
    workflow = DeblurringWorkflow(Workflow(workflow_schema()(), {"p": settings}))
    expectation = contextlib.nullcontext()
    if refused:
        expectation = pytest.raises(ConfigError, match="a single training sequence")
    with expectation:
        raw_data(workflow)[0].require_sequences_to_hold_out("p", settings)


def test_missing_and_generated_data_are_not_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("nowhere", "made"):
        workflow = workflow_of(place)
        raw_data(workflow)[0].require_sequences_to_hold_out("p", workflow.preset("p"))


def test_a_preset_is_checked_before_the_job_of_its_data_set(root):
    (root / "train/a").rename(root / "train/c")
    workflow = workflow_of(str(root), USE_SPIKE=False)
    data, _ = raw_data(workflow)
    with pytest.raises(ConfigError, match="a single training sequence"):
        data.wildcards_of("p")
    shutil.copytree(root / "train/c", root / "train/d")
    data, _ = raw_data(workflow)
    assert data.wildcards_of("p") == {"dataset": "raw", "bins": 32}
    # Files of two presets with the same data are listed once.
    assert data.checked_files(["p", "p"]) == [
        "results/data/raw/alignment.csv",
        "results/data/raw/k32/accepted.json",
    ]
    with_spikes, _ = raw_data(workflow_of(str(root)))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        with_spikes.wildcards_of("p")
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        with_spikes.checked_files(["p"])


def test_a_preset_on_generated_data_gives_a_notice_if_the_user_has_data(root):
    def notes(root: str) -> list[str]:
        keys = {"DEMO": {"ROOT": "made"}, "DATA": {"ROOT": root}}
        presets = {
            name: Settings.model_validate({"DATA": {"ROOT": path}})
            for name, path in (("demo", "made"), ("mine", root))
        }
        workflow = Workflow(workflow_schema().model_validate(keys), presets)
        data, messages = raw_data(DeblurringWorkflow(workflow))
        data.wildcards_of("demo")
        data.note_own_data("mine")
        return messages

    (note,) = notes(str(root))
    assert note.startswith("preset demo takes generated data (made, its own DATA.ROOT), not those")
    assert f"of config/config.yaml ({root})" in note
    assert notes("nowhere") == notes("made") == []
