"""Planning of trainings: initial weights, longer runs, changed code and retraining."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vrtspike.analysis.diagnosis.task_advice import task_advice
from vrtspike.config.seed_names import split_seed
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.workflow_schema import WorkflowSettings
from vrtspike.data.manifests import DATASET
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import file_digest, write_json
from vrtspike.runs import named_models
from vrtspike.runs.identity import RunIdentity
from vrtspike.staleness.training_code import training_code, write_code
from vrtspike.staleness.trainings import TrainingPlanner
from vrtspike.system.errors import ConfigError, RunError


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/train.py").write_text("def step():\n    return 1\n\nstep()\n")
    return tmp_path


def planner(workflow: WorkflowConfig) -> TrainingPlanner:
    """The planner as rules make it."""
    return TrainingPlanner(
        workflow, Path("scripts/train.py"), lambda settings: task_advice(settings).missing_weights
    )


def trainings(**presets) -> TrainingPlanner:
    presets_by_name = {
        name: DeblurringSettings.model_validate(sections) for name, sections in presets.items()
    }
    return planner(WorkflowConfig(WorkflowSettings(), presets_by_name))


def give(path: str, contents: bytes = b"weights") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(contents)
    return file_digest(path)


def student_of(teacher: str) -> dict:
    return {"TRAIN": {"DISTILL": {"TEACHER": teacher}}}


def test_weights_are_trained_here_downloaded_or_given_by_the_user(here):
    result = trainings(
        large={},
        student=student_of("results/train/large"),
        sharp={"LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1}}, "WEIGHTS": {"DIR": "w"}},
        elsewhere=student_of("old/large"),
        given={"MODEL": {"VRT": {"SPYNET": "spynet.pth"}}},
    )
    for preset, origin, path in (
        ("student", "trained", "results/train/large/weights.safetensors"),
        ("sharp", "downloaded", "w/vgg16-397923af.pth"),
        ("given", "given", "spynet.pth"),
    ):
        for case in ("trained", "downloaded", "given"):
            expected = [Path(path)] if case == origin else []
            assert list(result.weights(preset, case).values()) == expected
    for preset, key, file in (
        ("given", r"MODEL\.VRT\.SPYNET", "spynet.pth"),
        ("elsewhere", r"TRAIN\.DISTILL\.TEACHER", "old/large/weights.safetensors"),
    ):
        with pytest.raises(ConfigError, match=rf"preset {preset}: {key}: no such file: {file}"):
            result.require_files(preset)
        give(file)
        result.require_files(preset)


def test_a_training_that_needs_itself_is_refused(here):
    presets = {
        "alone": student_of("results/train/alone"),
        "a": student_of("results/train/b"),
        "b": student_of("./results/train/c/"),
        "c": student_of("results/train/b"),
    }
    for preset, chain in (("alone", "alone needs alone"), ("a", "a needs b needs c needs b")):
        with pytest.raises(ConfigError, match=rf"{preset}: TRAIN.DISTILL.* circular: {chain};"):
            trainings(**presets).require_files(preset)


def started_from(start: str) -> dict:
    return {"MODEL": {"PRETRAINED": start}}


def test_a_start_is_trained_here_or_must_be_there(here, monkeypatch):
    monkeypatch.setattr(named_models, "bundled_folder", (here / "package").joinpath)
    presets = {
        "first": {},
        "tuned": started_from("results/train/first"),
        "alone": started_from("results/train/alone"),
        "general": started_from("general"),
        "elsewhere": started_from("old/run/of_mine"),
    }
    planned = trainings(**presets)
    expected = Path("results/train/first/weights.safetensors")
    assert planned.weights("tuned", "trained") == {"MODEL.PRETRAINED": expected}
    planned.require_files("tuned")
    for preset, message in (
        ("alone", r"PRETRAINED is circular: alone needs alone;"),
        ("general", r"PRETRAINED: no such file: .*; the weights 'general' are not in this install"),
        ("elsewhere", r"no such file: old/run/of_mine/weights\.safetensors; name a result folder"),
    ):
        with pytest.raises(ConfigError, match=rf"preset {preset}: MODEL\..*{message}"):
            planned.require_files(preset)


def test_a_longer_training_says_how_the_finished_run_goes_on(here):
    publish({"TRAIN": {"MAX_STEPS": 100}})
    for train, keys in (
        ({"MAX_STEPS": 100}, None),
        ({"MAX_STEPS": 50}, None),
        ({"MAX_STEPS": 200}, "TRAIN.MAX_STEPS"),
        ({"MAX_STEPS": None, "EPOCHS": 50}, "TRAIN.MAX_STEPS and TRAIN.EPOCHS"),
        ({"MAX_STEPS": 100, "EPOCHS": None}, "TRAIN.EPOCHS"),
    ):
        message = trainings(p={"TRAIN": train}).continuation_message("p")
        assert (message is None) == (keys is None)
        assert message is None or f"p: {keys} raised: it is trained from the beginning" in message
        assert message is None or "BASE: p and MODEL.PRETRAINED: results/train/p" in message
    assert trainings(q={"TRAIN": {"MAX_STEPS": 200}}).continuation_message("q") is None


def test_no_run_goes_on_where_nothing_is_or_was_trained(here):
    kept = started_from("general") | {"TRAIN": {"MAX_STEPS": 0}}
    tuned = started_from("general") | {"TRAIN": {"MAX_STEPS": 9}}
    for before, now in ((kept, tuned), (tuned, kept)):
        publish(before)
        assert trainings(p=now).describe_changes("p").startswith("TRAIN.MAX_STEPS ")
        assert trainings(p=now).continuation_message("p") is None


GIVEN = {"MODEL": {"VRT": {"PRETRAINED": "vrt.pth"}}}
MISSING = r"preset p: MODEL\.VRT\.PRETRAINED: no such file: vrt\.pth"


DATA = Path("results/data/gopro_spike/k32/dataset.json")


def publish(sections: dict, digest: str = "ab") -> None:
    """The result of a run of the preset p that was given weights with this digest."""
    give("results/train/p/weights.safetensors")
    weights = {"MODEL.VRT.PRETRAINED": digest}
    settings = DeblurringSettings.model_validate(sections)
    RunIdentity("p", settings, str(DATA), "abc", "d", weights).write(Path("results/train/p"))


@pytest.mark.parametrize("changed", ["settings", "data", "other weights", "again", "no weights"])
def test_given_weights_must_be_there_where_a_preset_is_trained(here, changed):
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
        write_json(DATA, {"schema": DATASET.schema, "digest": None})
    elif changed == "other weights":
        give("spynet.pth", b"others")
    elif changed == "no weights":
        Path("results/train/p/weights.safetensors").unlink()
    result = trainings(p=sections)
    with pytest.raises(ConfigError, match=MISSING):
        result.require_files("p", retrain=changed == "again")


def test_changes_since_a_training_are_those_of_its_settings_json(here):
    give("vrt.pth")
    publish(GIVEN, file_digest("vrt.pth"))
    manifest = {"schema": DATASET.schema, "digest": "d"}
    assert trainings(p=GIVEN).describe_changes("p") == ""
    # Results may stand anywhere.
    for dataset, other in (("gopro_spike/k32", ""), ("gopro_spike/k8", "another data set")):
        identity = RunIdentity.read(Path("results/train/p"))
        dataset = f"/elsewhere/data/{dataset}/dataset.json"
        replace(identity, dataset=dataset).write(Path("results/train/p"))
        assert trainings(p=GIVEN).describe_changes("p") == other
    # Data that are there are compared by their contents.
    write_json(DATA, manifest)
    more = {"LOG": {"MEMORY_EVERY_STEPS": 7}, "TEST": {"METRICS": ["psnr"]}}
    assert trainings(p=GIVEN | more).describe_changes("p") == ""
    other = GIVEN | {"TRAIN": {"OPTIM": {"LR": 0.25}}, "SEED": 4}
    assert (
        trainings(p=other).describe_changes("p") == "SEED 123 -> 4, TRAIN.OPTIM.LR 0.0002 -> 0.25"
    )
    write_json(DATA, manifest | {"digest": "others"})
    assert trainings(p=GIVEN).describe_changes("p") == "the data have changed"
    give("vrt.pth", b"others")
    change = trainings(p=GIVEN).describe_changes("p")
    assert change == "the data have changed, MODEL.VRT.PRETRAINED: other weights"
    Path("vrt.pth").unlink()
    assert trainings(p=GIVEN).describe_changes("p") == "the data have changed"
    assert trainings(q=GIVEN).describe_changes("q") == ""
    Path("results/train/p/settings.json").write_text("{")
    with pytest.raises(RunError, match=r"settings\.json: damaged, .* remove the folder to train"):
        trainings(p=GIVEN).describe_changes("p")


def test_changed_code_of_a_trained_preset_is_one_line(here):
    result = trainings(p={}, q={})
    assert result.code_message("p") is None
    give("results/train/p/weights.safetensors")
    assert result.code_message("p") is None
    code = dict(training_code(Path("scripts/train.py"), "deblurring"))
    assert code
    write_code(Path("results/train/p"), code)
    assert result.code_message("p") is None
    write_code(Path("results/train/p"), {**code, "scripts/train.py": "of old"})
    assert result.code_message("p") == (
        "p was trained by other code: scripts/train.py. Its weights stay; to train it again: "
        "snakemake --cores all train_p --config RETRAIN=p"
    )
    assert result.code_message("q") is None


def plan_of(sections: dict, retrain: str = "") -> tuple[str, str | None]:
    """Reason to train the preset p, and the message."""
    presets = {"p": DeblurringSettings.model_validate(sections)}
    workflow = WorkflowConfig(WorkflowSettings(RETRAIN=retrain), presets)
    plan = planner(workflow).plan("p")
    assert plan.result == Path("results/train/p/weights.safetensors")
    return plan.rerun_reason, plan.message


def test_a_missing_result_is_made(here):
    assert plan_of({}) == ("no result yet", None)


def test_a_result_is_made_again_only_if_it_is_stale_or_asked_for(here):
    steps = {"TRAIN": {"MAX_STEPS": 100}}
    publish(steps)
    code = dict(training_code(Path("scripts/train.py"), "deblurring"))
    write_code(Path("results/train/p"), code)
    assert plan_of(steps) == ("", None)
    assert plan_of({**steps, "SEED": 4}) == ("SEED 123 -> 4", None)
    reason, note = plan_of({"TRAIN": {"MAX_STEPS": 200}})
    assert reason == "TRAIN.MAX_STEPS 100 -> 200"
    assert note.startswith("p: TRAIN.MAX_STEPS raised: it is trained from the beginning")
    assert plan_of(steps, "p") == ("", "p: its code has not changed; RETRAIN does nothing")
    write_code(Path("results/train/p"), {**code, "scripts/train.py": "of old"})
    reason, note = plan_of(steps)
    assert reason == ""
    assert note.startswith("p was trained by other code: scripts/train.py")
    assert plan_of(steps, "p") == ("asked for", None)
    # Where the former code is unknown, the training is asked for.
    Path("results/train/p/code.json").unlink()
    assert plan_of(steps) == ("", None)
    assert plan_of(steps, "p") == ("asked for", None)


def test_files_are_required_only_of_a_training_that_runs(here):
    publish(GIVEN)
    assert plan_of(GIVEN) == ("", None)
    with pytest.raises(ConfigError, match=MISSING):
        plan_of(GIVEN, "p")


@pytest.mark.parametrize(
    ("retrain", "expected"),
    [
        ("", set()),
        ("p", {"p"}),
        ("p-without-spikes", {"p-without-spikes"}),
        ("p s", {"p", "s", "s-seed-2"}),
    ],
)
def test_retrain_names_trainings(retrain, expected):
    presets = {
        "p": DeblurringSettings(),
        "q": DeblurringSettings(),
        "s": DeblurringSettings(SEEDS=2),
    }
    workflow = WorkflowConfig(WorkflowSettings(RETRAIN=retrain), presets)
    assert planner(workflow).retrained == expected


def test_a_sweep_is_trained_again_by_its_name_with_all_seeds(here):
    for path, text in {
        "config.yaml": "PRESETS: [small]\n",
        "config/presets/small.yaml": "SEEDS: 2\n",
        "config/sweeps/rates.yaml": "BASE: small\nGRID: {TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]}\n",
        "config/sweeps/sizes.yaml": "BASE: small\nGRID: {TRAIN.BATCH_SIZE: [1, 2]}\n",
    }.items():
        give(path, text.encode())
    workflow = load_workflow_config(["config.yaml"], {"RETRAIN": "rates"})
    names = planner(workflow).retrained
    members = set(workflow.sweep("rates").members)
    assert members < names
    assert {split_seed(name)[0] for name in names} == members
    assert len(names) == 2 * len(members) == 4
