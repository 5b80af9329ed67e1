"""The identity of a run: settings, data and weights, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs.data_sets import STATISTICS, write_dataset, write_teacher
from vrtspike.config import load_preset
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.backbone_weights import PUBLISHED
from vrtspike.io.files import file_digest, read_json
from vrtspike.runs.identity import (
    RunIdentity,
    evaluation_settings,
    identify,
    prepare_folder,
    result_settings,
)
from vrtspike.system.errors import DataError, RunError


def of(**sections):
    return result_settings(DeblurringSettings.model_validate(sections))


@pytest.mark.parametrize(
    ("decides", "sections"),
    [
        (False, {"DATALOADER": {"TOTAL_WORKERS": 3}}),
        (False, {"LOG": {"VAL_EVERY_STEPS": 7, "TENSORBOARD": False}}),
        (False, {"TEST": {"METRICS": ["psnr"]}}),
        (False, {"DATA": {"CACHE_SIZE_GB": 1.0, "ROOT": "x", "USE_PRECOMPUTED_VOXELS": False}}),
        (False, {"MODEL": {"FUSE": {"CHUNK_SIZE": 8}, "VRT": {"USE_CHECKPOINT_ATTN": False}}}),
        (False, {"TRAIN": {"KEEP_LAST": 9, "SAVE_EVERY_STEPS": 7}}),
        (False, {"LOSS": {"LPIPS": {"NET": "vgg"}, "VGG_PERCEPTUAL": {"EVERY": 3}}}),
        (False, {"TRAIN": {"COMPILE_MODE": "max-autotune"}}),
        (False, {"TRAIN": {"BASE_BATCH_SIZE": 12}}),
        (False, {"TRAIN": {"AMP_INIT_SCALE": 1024.0}}),
        (True, {"SEED": 1}),
        (True, {"TRAIN": {"OPTIM": {"LR": 1e-3}}}),
        (True, {"DATA": {"NUM_VOXEL_BINS": 16}}),
        (True, {"DATALOADER": {"DROP_LAST": False}}),
        (True, {"MODEL": {"FUSE": {"INIT": "random"}}}),
        (True, {"LOSS": {"CHARBONNIER": {"DELTA": 0.1}}}),
        (True, {"LOSS": {"LPIPS": {"WEIGHT": 0.1}}}),
    ],
)
def test_result_keys_decide_the_result_and_operational_ones_do_not(decides, sections):
    assert (of(**sections) != of()) == decides


@pytest.mark.parametrize(
    ("train", "changed_keys"),
    [
        ({"COMPILE_MODEL": True}, {"COMPILE_MODE": "max-autotune"}),
        ({"SCALE_LR": "sqrt"}, {"BASE_BATCH_SIZE": 12}),
        ({"PRECISION": "16-mixed"}, {"AMP_INIT_SCALE": 1024.0}),
        ({"PRECISION": "mixed"}, {"AMP_INIT_SCALE": 1024.0}),
    ],
)
def test_keys_that_depend_on_others_decide_where_they_have_an_effect(train, changed_keys):
    assert of(TRAIN=train | changed_keys) != of(TRAIN=train)


def test_the_validation_interval_counts_where_early_stopping_watches_it():
    stopping = {"TRAIN": {"EARLY_STOPPING": {"PATIENCE": 2}}}
    assert of(**stopping, LOG={"VAL_EVERY_STEPS": 7}) != of(**stopping)


def test_evaluation_has_settings_of_its_own():
    base = evaluation_settings(DeblurringSettings())
    changed = DeblurringSettings.model_validate({"TEST": {"TILE": {"SIZE": 128}, "NUM_WORKERS": 0}})
    assert evaluation_settings(changed)["TEST"]["TILE"]["SIZE"] == 128
    assert "NUM_WORKERS" not in base["TEST"]


def fingerprint_of(tmp_path, digest: str = "d", **sections) -> str:
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS, digest)
    return identify("x", DeblurringSettings.model_validate(sections), dataset).fingerprint


def test_fingerprint_names_settings_and_data_that_decide_the_result(tmp_path):
    same = fingerprint_of(tmp_path)
    assert len(same) == 12
    assert same == fingerprint_of(tmp_path, LOG={"TIMING_FILE": False})
    rate = fingerprint_of(tmp_path, TRAIN={"OPTIM": {"LR": 1e-3}})
    assert len({same, rate, fingerprint_of(tmp_path, digest="e")}) == 3
    with pytest.raises(DataError, match=r"none\.json: No such file.* expected a data set manifest"):
        identify("x", DeblurringSettings(), tmp_path / "none.json")


@pytest.mark.parametrize("key", ["PRETRAINED", "SPYNET", "TEACHER"])
def test_the_bytes_of_weights_decide_and_their_place_does_not(tmp_path, key):
    def fingerprint(folder: Path, contents: bytes) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "w.pth").write_bytes(contents)
        if key != "TEACHER":
            return fingerprint_of(tmp_path, MODEL={"VRT": {key: str(folder / "w.pth")}})
        teacher = write_teacher(folder, DeblurringSettings(), contents)
        return fingerprint_of(tmp_path, TRAIN={"DISTILL": {"TEACHER": str(teacher)}})

    first = fingerprint(tmp_path / "a", b"weights")
    assert first != fingerprint_of(tmp_path)
    assert first == fingerprint(tmp_path / "b", b"weights")
    # Both ends: a digest of the head alone would not see the last byte.
    assert first != fingerprint(tmp_path / "a", b"weightz")
    assert first != fingerprint(tmp_path / "a", b"Weights")


def test_the_identity_holds_the_digest_of_every_weight_file(tmp_path):
    (tmp_path / "spynet.pth").write_bytes(b"flow")
    (tmp_path / "vgg16-397923af.pth").write_bytes(b"whoever loads it compares its contents")
    settings = DeblurringSettings.model_validate(
        {
            "MODEL": {"VRT": {"SPYNET": str(tmp_path / "spynet.pth")}},
            "LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1}},
            "WEIGHTS": {"DIR": str(tmp_path)},
        }
    )
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS)
    assert identify("x", settings, dataset).weights == {
        "MODEL.VRT.SPYNET": file_digest(tmp_path / "spynet.pth"),
        "LOSS.VGG_PERCEPTUAL": PUBLISHED["vgg16-397923af.pth"],
    }


def test_missing_weights_are_named_with_their_key(tmp_path):
    with pytest.raises(RunError, match=r"SPYNET: .*none\.pth: No such file .* remove the key"):
        fingerprint_of(tmp_path, MODEL={"VRT": {"SPYNET": str(tmp_path / "none.pth")}})
    with pytest.raises(RunError, match=r"TEACHER: .*none.* train it first"):
        fingerprint_of(tmp_path, TRAIN={"DISTILL": {"TEACHER": str(tmp_path / "none")}})
    weights = {"LOSS": {"LPIPS": {"WEIGHT": 0.1}}, "WEIGHTS": {"DIR": str(tmp_path)}}
    with pytest.raises(RunError, match=r"alexnet.*: no such file; `snakemake --cores 1 weights`"):
        fingerprint_of(tmp_path, **weights)


def test_the_identity_is_read_as_written(tmp_path):
    settings = DeblurringSettings.model_validate({"TRAIN": {"OPTIM": {"LR": 1e-3}}, "SEED": 7})
    run = RunIdentity("small", settings, "/data/dataset.json", "abc", "d", {"SPYNET": "e"})
    run.write(tmp_path)
    assert RunIdentity.read(tmp_path) == run


def changed(**values):
    """The contents of a file with some of them replaced."""
    return lambda text: json.dumps({**json.loads(text), **values})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed(schema=2), "found schema 2, expected 4"),
        (changed(settings={"TRAIN": {"NOVEL": 1}}), "another version"),
        (changed(settings=None), "settings: found None, expected a mapping"),
        (lambda text: text.replace('"dataset"', '"d"'), "another version .*dataset"),
        (lambda text: "[]", "expected a mapping"),
        (lambda text: text[:200], r"damaged, no JSON .* train the preset again"),
        (None, "no such file; expected the folder of a run"),
    ],
)
def test_a_damaged_identity_is_refused(tmp_path, damage, message):
    path = tmp_path / "settings.json"
    if damage is not None:
        RunIdentity("small", DeblurringSettings(), "dataset.json", "abc").write(tmp_path)
        path.write_text(damage(path.read_text()))
    with pytest.raises(RunError, match=rf"settings\.json.*{message}"):
        RunIdentity.read(tmp_path)


@pytest.fixture
def place(tmp_path) -> Path:
    """A preset with given flow weights, and a data set."""
    (tmp_path / "spynet.pth").write_bytes(b"flow")
    (tmp_path / "p.yaml").write_text(
        f"MODEL: {{VRT: {{SPYNET: {tmp_path / 'spynet.pth'}}}}}\nTRAIN: {{OPTIM: {{LR: 1.0e-3}}}}\n"
    )
    write_dataset(tmp_path / "dataset.json", STATISTICS)
    return tmp_path


def start_run(place: Path) -> RunIdentity:
    run = identify("p", load_preset(place / "p.yaml"), place / "dataset.json")
    run.write(place / "run")
    prepare_folder(place / "run")
    return run


def test_a_run_continues_with_its_settings_and_statistics(place):
    run = start_run(place)
    assert (run.name, run.settings.TRAIN.OPTIM.LR) == ("p", 1e-3)
    assert run.dataset == str(place / "dataset.json")
    statistics = place / "run" / "statistics.json"
    statistics.unlink()
    assert prepare_folder(place / "run") == run
    assert RunIdentity.read(place / "run") == run
    assert read_json(statistics)["statistics"] == STATISTICS


def test_a_run_of_an_older_version_is_read_with_its_names_of_keys(place, recwarn):
    contents = start_run(place).contents()
    del contents["settings"]["DATA"]["CROP_SIZE"]
    contents["settings"]["DATA"]["TRAIN_CROP_SIZE"] = 64
    contents["settings"]["LOG"]["SAVE_DIR"] = "log"
    run = RunIdentity.parse(contents, Path("settings.json"))
    assert run.settings.DATA.CROP_SIZE == 64
    assert not recwarn.list


def test_settings_of_another_run_are_refused(place):
    run = start_run(place)
    replace(run, settings=run.settings.model_copy(update={"SEED": 5})).write(place / "run")
    with pytest.raises(RunError, match=f"holds run {run.fingerprint}; .* with other settings"):
        prepare_folder(place / "run")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dataset.json", r"with other \S*dataset\.json\. Train"),
        ("spynet.pth", r"with other MODEL\.VRT\.SPYNET\. Train"),
    ],
)
def test_changed_data_and_weights_are_refused(place, name, message):
    start_run(place)
    changed = (place / name).read_bytes().replace(b'"d"', b'"e"').replace(b"flow", b"flaw")
    (place / name).write_bytes(changed)
    with pytest.raises(RunError, match=message):
        prepare_folder(place / "run")


def test_a_folder_without_a_run_is_refused(place):
    with pytest.raises(RunError, match=r"settings\.json: no such file; expected"):
        prepare_folder(place / "run")
    (place / "spynet.pth").unlink()
    with pytest.raises(RunError, match=r"MODEL.VRT.SPYNET: \S+spynet.pth: No such file"):
        start_run(place)
    assert not (place / "run").exists()
