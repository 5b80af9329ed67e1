from __future__ import annotations

from pathlib import Path

import pytest

from vrtspike.config.workflow import Workflow, WorkflowSettings
from vrtspike.deblurring.data.manifests import DATASET
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError
from vrtspike.files import file_digest, write_json
from vrtspike.planning.training import Trainings, retrained
from vrtspike.runs.code import training_code, write_code
from vrtspike.runs.identity import RunIdentity


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/train.py").write_text("def step():\n    return 1\n\nstep()\n")
    return tmp_path


def trainings(notice=lambda text: None, /, **presets) -> Trainings:
    known = {name: Settings.model_validate(sections) for name, sections in presets.items()}
    return Trainings(Workflow(WorkflowSettings(), known), Path("scripts/train.py"), notice)


def give(path: str, contents: bytes = b"weights") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(contents)
    return file_digest(path)


def student_of(teacher: str) -> dict:
    return {"TRAIN": {"DISTILL": {"TEACHER": teacher}}}


def test_weights_are_trained_fetched_or_given(here):
    found = trainings(
        large={},
        student=student_of("results/train/large"),
        sharp={"LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1}}, "WEIGHTS": {"DIR": "w"}},
        given={"MODEL": {"VRT": {"SPYNET": "spynet.pth"}}},
    )
    assert found.trained_before("student") == ["results/train/large/weights.safetensors"]
    assert found.fetched_before("student") == found.weight_lines("student") == []
    assert found.fetched_before("sharp") == ["w/vgg16-397923af.pth"]
    assert found.trained_before("sharp") == found.weight_lines("sharp") == []
    digest = give("spynet.pth")
    assert found.weight_lines("given") == [f"MODEL.VRT.SPYNET: SHA-256 {digest}"]
    assert found.trained_before("given") == found.fetched_before("given") == []


def test_a_teacher_from_elsewhere_is_given(here):
    found = trainings(student=student_of("old/large"))
    assert found.trained_before("student") == []
    with pytest.raises(ConfigError, match=r"student: TRAIN\.DISTILL\.TEACHER: no such file: old"):
        found.require_files("student")
    digest = give("old/large/weights.safetensors")
    assert found.weight_lines("student") == [f"TRAIN.DISTILL.TEACHER: SHA-256 {digest}"]
    found.require_files("student")


GIVEN = {"MODEL": {"VRT": {"PRETRAINED": "vrt.pth"}}}
MISSING = r"preset p: MODEL\.VRT\.PRETRAINED: no such file: vrt\.pth"


def publish(sections: dict, digest: str = "ab") -> None:
    """The result of a run of the preset p that was given weights with this digest."""
    give("results/train/p/weights.safetensors")
    weights = {"MODEL.VRT.PRETRAINED": digest}
    settings = Settings.model_validate(sections)
    RunIdentity("p", settings, "d.json", "abc", "d", weights).write(Path("results/train/p"))


def test_given_weights_must_be_there_until_the_preset_is_trained(here):
    notices: list[str] = []
    found = trainings(notices.append, p=GIVEN)
    with pytest.raises(ConfigError, match=MISSING):
        found.require_files("p")
    publish(GIVEN)
    assert notices == []
    found.require_files("p")
    assert found.weight_lines("p") == ["MODEL.VRT.PRETRAINED: SHA-256 ab"]
    (notice,) = notices
    assert "MODEL.VRT.PRETRAINED (vrt.pth)" in notice
    assert "Its result stays" in notice


@pytest.mark.parametrize("changed", ["settings", "data", "other weights", "anew", "no weights"])
def test_given_weights_must_be_there_where_a_trained_preset_is_trained_again(here, changed):
    sections: dict = {"MODEL": {"VRT": {**GIVEN["MODEL"]["VRT"], "SPYNET": "spynet.pth"}}}
    digest = give("spynet.pth")
    publish(sections)
    identity = RunIdentity.read(Path("results/train/p"))
    identity.weights["MODEL.VRT.SPYNET"] = digest
    identity.write(Path("results/train/p"))
    trainings(p=sections).require_files("p")
    if changed == "settings":
        sections = {**sections, "SEED": 4}
    elif changed == "data":
        dataset = Path("results/data/gopro_spike/k32/dataset.json")
        write_json(dataset, dict.fromkeys(DATASET.keys) | {"schema": DATASET.schema})
    elif changed == "other weights":
        give("spynet.pth", b"others")
    elif changed == "no weights":
        Path("results/train/p/weights.safetensors").unlink()
    found = trainings(p=sections)
    with pytest.raises(ConfigError, match=MISSING):
        found.require_files("p", anew=changed == "anew")
    if changed != "anew":
        with pytest.raises(ConfigError, match=MISSING):
            found.weight_lines("p")


def test_a_result_of_another_data_set_is_known_wherever_results_stand(here):
    settings = Settings()
    assert not trainings(p={}).has_other_data("p")  # it was never trained
    for dataset, other in (
        ("/elsewhere/data/gopro_spike/k32/dataset.json", False),
        ("/elsewhere/data/gopro_spike/k8/dataset.json", True),
        ("/elsewhere/data/more_spike/k32/dataset.json", True),
    ):
        RunIdentity("p", settings, dataset, "abc", "d").write(Path("results/train/p"))
        assert trainings(p={}).has_other_data("p") == other, dataset


def test_a_run_s_own_record_tells_what_has_changed(here):
    give("vrt.pth")
    publish(GIVEN, file_digest("vrt.pth"))
    dataset = Path("results/data/gopro_spike/k32/dataset.json")
    manifest = dict.fromkeys(DATASET.keys, 0) | {"schema": DATASET.schema, "digest": "d"}
    assert trainings(p=GIVEN).change("p") == ""
    write_json(dataset, manifest)
    more = {"LOG": {"MEMORY_EVERY_STEPS": 7}, "TEST": {"METRICS": ["psnr"]}}
    assert trainings(p=GIVEN | more).change("p") == ""
    other = GIVEN | {"TRAIN": {"OPTIM": {"LR": 0.25}}, "SEED": 4}
    assert trainings(p=other).change("p") == "SEED 123 -> 4, TRAIN.OPTIM.LR 0.0002 -> 0.25"
    write_json(dataset, manifest | {"digest": "others"})
    assert trainings(p=GIVEN).change("p") == "the data are others"
    give("vrt.pth", b"others")
    found = trainings(p=GIVEN).change("p")
    assert found == "the data are others, MODEL.VRT.PRETRAINED: other weights"
    Path("vrt.pth").unlink()
    assert trainings(p=GIVEN).change("p") == "the data are others"
    assert trainings(q=GIVEN).change("q") == ""
    Path("results/train/p/settings.json").write_text("{")
    assert trainings(p=GIVEN).change("p") == ""


def test_a_preset_that_was_trained_without_weights_needs_those_it_is_given_now(here):
    publish(GIVEN)
    RunIdentity("p", Settings(), "d.json", "abc", "d").write(Path("results/train/p"))
    with pytest.raises(ConfigError, match=MISSING):
        trainings(p=GIVEN).weight_lines("p")


def test_arguments_of_vrt_that_are_missing_are_told_of_a_trained_preset_too(here):
    sections = {"MODEL": {"VRT_CFG": "vrt.yaml"}}
    publish(sections)
    notices: list[str] = []
    trainings(notices.append, p=sections).require_files("p")
    assert "MODEL.VRT_CFG (vrt.yaml)" in notices[0]


def test_changed_code_of_a_trained_preset_is_one_line(here):
    found = trainings(p={}, q={})
    assert found.code_notice("p") is None
    give("results/train/p/weights.safetensors")
    assert found.code_notice("p") is None
    code = dict(training_code(Path("scripts/train.py"), "deblurring"))
    assert code
    write_code(Path("results/train/p"), code)
    assert found.code_notice("p") is None
    write_code(Path("results/train/p"), {**code, "scripts/train.py:step": "of old"})
    assert found.code_notice("p") == (
        "p was trained by other code: step in scripts/train.py. Its weights stay; to train it "
        "again: snakemake --forcerun train_p"
    )
    assert found.code_notice("q") is None


@pytest.mark.parametrize(
    ("forced", "retrain", "expected"),
    [
        ([], (), set()),
        (["train_p"], (), {"p"}),
        (["train_p-without-spikes"], (), {"p-without-spikes"}),
        (["evaluate_p", "train_x"], (), set()),
        ([], ("q",), {"q"}),
        (["train_p"], ("q",), {"p", "q"}),
    ],
)
def test_who_is_trained_again(forced, retrain, expected):
    plan = Workflow(WorkflowSettings(RETRAIN=retrain), {"p": Settings(), "q": Settings()})
    assert retrained(plan, forced) == expected


def test_forcing_train_means_every_preset():
    plan = Workflow(WorkflowSettings(), {"p": Settings()})
    assert retrained(plan, ["train"]) == {"p", "p-without-spikes", "p-shuffled-spikes"}
