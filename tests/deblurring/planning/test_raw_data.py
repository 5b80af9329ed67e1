from __future__ import annotations

import contextlib
import dataclasses
import shlex
import shutil
from pathlib import Path

import pytest

from vrtspike.config.workflow import Workflow
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.datasets import Dataset, DeblurringWorkflow
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.deblurring.planning import (
    MISSING,
    RawData,
    RawState,
    calibration_options,
    clip_options,
    inputs_version,
    raw_file_options,
    sensor_option,
    simulated_sequence,
    simulation_options,
    split_options,
)
from vrtspike.settings import Settings
from vrtspike.settings.workflow import CalibrateSettings, SimulatedSequence, SimulateSettings
from vrtspike.system.errors import ConfigError
from vrtspike.workflow.messages import Notices


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


class Said(Notices):
    """What would be said at the end."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.exit_status = 0
        self.add = self.said.append


SOURCES = [{"FRAMES": "f", "SPLIT": "train", "SEQUENCE": "s"}]


def asked(workflow: Workflow, dry: bool = True) -> tuple[RawData, list[str]]:
    notices = Said()
    return RawData(workflow, lambda: dry, notices), notices.said


def test_a_data_set_is_looked_at_once(root):
    workflow = workflow_of(str(root))
    dataset = workflow.dataset("p")
    data, notices = asked(workflow)
    found = data.found(dataset)
    shutil.copytree(root / "train/a", root / "train/c")
    assert (data.found(dataset), notices) == (found, [])
    assert asked(workflow)[0].found(dataset) != found


@pytest.mark.parametrize("dry", [True, False])
def test_without_data_a_notice_says_what_to_do_and_a_plan_has_failed(tmp_path, dry):
    workflow, notices = workflow_of(str(tmp_path / "none")), Said()
    assert RawData(workflow, lambda: dry, notices).found(workflow.dataset("p")) is None
    assert notices.exit_status == dry
    (notice,) = notices.said
    assert "Set DATA.ROOT" in notice
    assert "make demo" in notice


@pytest.mark.parametrize("dry", [True, False])
def test_faults_of_names_are_told_when_nothing_runs(root, dry):
    shutil.rmtree(root / "train/a/blur")
    shutil.copytree(root / "test/b", root / "train/c")
    workflow = workflow_of(str(root))
    data, notices = asked(workflow, dry)
    assert [s["name"] for s in data.survey(workflow.dataset("p"))["sequences"]] == ["c", "b"]
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
    data, dataset = asked(workflow)[0], workflow.dataset("p")
    assert list(dataset.sources) == before
    assert (data.found(dataset) is None) == bool(before)


def test_a_folder_that_no_calibration_writes_is_raw():
    settings = Settings.model_validate({"DATA": {"ROOT": "mine"}})
    keys = workflow_schema().model_validate({"CALIBRATE": {"ROOT": "mine"}})
    assert DeblurringWorkflow(Workflow(keys, {"p": settings})).dataset("p").kind == "raw"


def states(workflow: Workflow, **options) -> dict[str, RawState]:
    return RawData(workflow, lambda: True, Said(), **options).states(workflow.dataset("p"))


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


def test_faulty_sequences_and_those_of_no_data_have_no_state(root, tmp_path):
    shutil.copytree(root / "train/a", root / "train/c")
    shutil.rmtree(root / "train/c/blur")
    assert sorted(states(workflow_of(str(root)))) == ["test/b", "train/a"]
    assert states(workflow_of(str(tmp_path / "none"))) == {}
    assert states(workflow_of(str(root)), measures=False) == {}
    assert states(workflow_of("made")) == {}  # its jobs are asked about generated data


def test_versions_of_files_change_with_them(root):
    places = ([str(root / "train")], [str(root / "test"), None, str(root / "train")])
    before = [inputs_version("files", *each) for each in places]
    (root / "train/a/blur/.hidden").touch()
    assert [inputs_version("files", *each) for each in places] == before
    (root / "train/a/blur/000001.png").write_text("pictura")
    after = [inputs_version("files", *each) for each in places]
    assert not {*after} & {*before}
    assert inputs_version("frames", str(root / "none")) == MISSING


def test_a_preset_with_spikes_is_refused_where_names_show_none(root):
    workflow = workflow_of(str(root))
    with pytest.raises(ConfigError, match=rf"preset p, {root}: no sequence"):
        asked(workflow)[0].require_spikes("p", workflow.preset("p"))
    elsewhere = root.with_name("root_spike_seq") / "train/a/spike"
    elsewhere.mkdir(parents=True)
    (elsewhere / "1.dat").touch()
    with pytest.raises(ConfigError, match=r"lie in \S+/root_spike_seq: set DATA\.SPIKE_ROOT"):
        asked(workflow)[0].require_spikes("p", workflow.preset("p"))
    plain = workflow_of(str(root), USE_SPIKE=False)
    asked(plain)[0].require_spikes("p", plain.preset("p"))


@pytest.mark.parametrize("place", ["raw", "simulated"])
def test_a_single_training_sequence_is_refused_if_some_are_to_be_held_out(root, place):
    workflow = workflow_of(place, USE_SPIKE=False)
    preset = workflow.preset("p")
    fault = rf"preset p, {place}: DATA.VALIDATION is held_out, and a single training sequence"
    with pytest.raises(ConfigError, match=fault):
        asked(workflow)[0].require_sequences_to_hold_out("p", preset)
    data = preset.DATA.model_copy(update={"VALIDATION": "test"})
    chosen = preset.model_copy(update={"DATA": data})
    asked(workflow)[0].require_sequences_to_hold_out("p", chosen)
    start = {"MODEL": {"PRETRAINED": "general"}, "TRAIN": {"MAX_STEPS": 0}}
    asked(workflow)[0].require_sequences_to_hold_out("p", Settings.model_validate(start))


@pytest.mark.parametrize(("on_error", "refused"), [("stop", False), ("exclude", True)])
def test_faulty_sequences_count_where_the_gate_lists_them(root, on_error, refused):
    (root / "train/c/blur").mkdir(parents=True)
    settings = Settings.model_validate({"DATA": {"ROOT": "raw", "ON_ERROR": on_error}})
    workflow = DeblurringWorkflow(Workflow(workflow_schema()(), {"p": settings}))
    expectation = pytest.raises(ConfigError) if refused else contextlib.nullcontext()
    with expectation:
        asked(workflow)[0].require_sequences_to_hold_out("p", settings)


def test_data_that_are_not_there_or_generated_are_not_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("nowhere", "made"):
        workflow = workflow_of(place)
        asked(workflow)[0].require_sequences_to_hold_out("p", workflow.preset("p"))


DATASET = Dataset("d", "my data", "blur_gamma", "train", "test", (250, 400), "spk", "stop", "raw")


def test_options_survive_the_shell():
    options = ["--root=my data", "--blur-dir=blur_gamma", "--layout=spk"]
    assert shlex.split(raw_file_options(DATASET)) == options
    assert sensor_option(DATASET) == "--spike-size 250 400"
    assert sensor_option(dataclasses.replace(DATASET, spike_size=None)) == ""
    splits = ["--train-split", "train", "--val-split", "test"]
    assert shlex.split(split_options(DATASET)) == splits
    allowed = dataclasses.replace(DATASET, test_on_training_frames=True)
    assert shlex.split(split_options(allowed)) == [*splits, "--test-on-training-frames"]


def preset(root: str, clip: int, crop: int, **train) -> Settings:
    data = {"ROOT": root, "CLIP_LEN": clip, "CROP_SIZE": crop}
    return Settings.model_validate({"DATA": data, "TRAIN": train})


def test_the_gate_asks_what_the_least_demanding_preset_on_the_data_takes():
    phases = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 1}]
    presets = {
        "one": preset("a", 5, 96, PROGRESSIVE=phases),
        "two": preset("a", 3, 256),
        "elsewhere": preset("b", 2, 32),
    }
    workflow = DeblurringWorkflow(Workflow(workflow_schema()(), presets))
    # Validation looks at training sequences; evaluation takes whole frames of any size.
    options = "--clip-length 3 --crop-sizes train=128 test=1"
    assert sorted(clip_options(workflow, "a").split()) == sorted(options.split())


SIMULATE = SimulateSettings(
    SEQUENCES=(
        SimulatedSequence(FRAMES="f 1", SPLIT="train", SEQUENCE="a"),
        SimulatedSequence(FRAMES="f2", SPLIT="test", SEQUENCE="a", FRAMES_PER_EXPOSURE=7),
    ),
    THETA=3.0,
    DARK_COUNTS=0.01,
    SEED=5,
)


def test_options_of_a_calibration():
    settings = CalibrateSettings(ROOT="mine", DATA="recorded", MOVING="moving", SENSOR=[250, 416])
    assert shlex.split(calibration_options(settings)) == [
        *("--output=mine", "--most-steps=200", "--moving=moving", "--data=recorded"),
        *("--sensor", "250", "416"),
    ]


def test_a_simulated_sequence_is_found_by_split_and_name():
    found = simulated_sequence(SIMULATE, "test", "a")
    assert found.FRAMES == "f2"
    assert shlex.split(simulation_options(SIMULATE, found)) == [
        *("--frames=f2", "--output=data/simulated", "--frames-per-exposure=7"),
        *("--steps-per-frame=8", "--theta=3.0", "--theta-spread=0.0", "--noise=0.0"),
        *("--dark-counts=0.01", "--hot-pixels=0.0", "--dead-pixels=0.0", "--jitter=0.0"),
        *("--seed=5", "--interpolation=linear"),
    ]
    with pytest.raises(ConfigError, match=r"SIMULATE\.SEQUENCES has no test/b"):
        simulated_sequence(SIMULATE, "test", "b")


def test_a_preset_of_generated_data_says_so_where_others_are_named(root):
    def notes(named: str) -> list[str]:
        keys = {"DEMO": {"ROOT": "made"}, "DATA": {"ROOT": named}}
        presets = {
            name: Settings.model_validate({"DATA": {"ROOT": path}})
            for name, path in (("demo", "made"), ("mine", named))
        }
        workflow = Workflow(workflow_schema().model_validate(keys), presets)
        data, said = asked(DeblurringWorkflow(workflow))
        for name in presets:
            data.note_own_data(name)
        return said

    (note,) = notes(str(root))
    assert note.startswith("preset demo takes generated data (made, its own DATA.ROOT), not those")
    assert f"of config/config.yaml ({root})" in note
    assert notes("nowhere") == notes("made") == []
