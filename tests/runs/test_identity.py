"""What decides a run: settings, data and weights, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from vrtspike.config.fields import names_weights
from vrtspike.deblurring.data.manifests import DATASET
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.weight_files import evaluation_weights, training_weights
from vrtspike.errors import ConfigError, DataError, RunError
from vrtspike.files import file_digest, write_json
from vrtspike.pretrained import PUBLISHED
from vrtspike.runs.identity import RunIdentity, evaluation_settings, identify, result_settings


def of(**sections):
    return result_settings(Settings.model_validate(sections))


@pytest.mark.parametrize(
    "sections",
    [
        {"DATALOADER": {"TOTAL_WORKERS": 3}},
        {"LOG": {"VAL_EVERY_STEPS": 7, "TENSORBOARD": False}},
        {"TEST": {"METRICS": ["psnr"]}},
        {"DATA": {"CACHE_SIZE_GB": 1.0, "ROOT": "elsewhere", "USE_PRECOMPUTED_VOXELS": False}},
        {"MODEL": {"FUSE": {"CHUNK_SIZE": 8}, "VRT": {"USE_CHECKPOINT_ATTN": False}}},
        {"TRAIN": {"KEEP_LAST": 9}},
        {"TRAIN": {"CUDA_GRAPH": "off"}},
        {"LOSS": {"LPIPS": {"NET": "vgg"}, "VGG_PERCEPTUAL": {"EVERY": 3}}},
    ],
)
def test_operational_keys_change_nothing(sections):
    assert of(**sections) == of()


@pytest.mark.parametrize(
    "sections",
    [
        {"SEED": 1},
        {"TRAIN": {"OPTIM": {"LR": 1e-3}}},
        {"DATA": {"K": 16}},
        {"DATALOADER": {"DROP_LAST": False}},
        {"MODEL": {"FUSE": {"INIT": "random"}}},
        {"LOSS": {"CHARBONNIER": {"DELTA": 0.1}}},
        {"LOSS": {"LPIPS": {"WEIGHT": 0.1}}},
    ],
)
def test_result_keys_change_the_result(sections):
    assert of(**sections) != of()


def test_the_validation_interval_counts_where_early_stopping_watches_it():
    stopping = {"TRAIN": {"EARLY_STOPPING": {"PATIENCE": 2}}}
    assert of(**stopping, LOG={"VAL_EVERY_STEPS": 7}) != of(**stopping)


def test_evaluation_has_settings_of_its_own():
    base = evaluation_settings(Settings())
    changed = Settings.model_validate({"TEST": {"TILE": {"SIZE": 128}, "NUM_WORKERS": 0}})
    assert evaluation_settings(changed)["TEST"]["TILE"]["SIZE"] == 128
    assert "NUM_WORKERS" not in base["TEST"]


def write_dataset(path: Path, statistics: dict[str, float] | None, digest: str = "d") -> Path:
    manifest = {
        "schema": DATASET.schema,
        "dataset": "x",
        "bins": 4,
        "blur_dir": "auto",
        "excluded": [],
    }
    write_json(path, {**manifest, "splits": {}, "statistics": statistics, "digest": digest})
    return path


STATISTICS = {"mean": 0.1, "std": 0.2, "count": 3}


def fingerprint_of(tmp_path, digest: str = "d", **sections) -> str:
    dataset = write_dataset(tmp_path / "dataset.json", STATISTICS, digest)
    return identify("x", Settings.model_validate(sections), dataset).fingerprint


def test_fingerprint_names_settings_and_data_that_decide_the_result(tmp_path):
    same = fingerprint_of(tmp_path)
    assert len(same) == 12
    assert same == fingerprint_of(tmp_path, LOG={"TIMING_FILE": False})
    assert same == fingerprint_of(tmp_path, DATALOADER={"TRAIN_WORKERS": 3})
    others = {
        fingerprint_of(tmp_path, TRAIN={"OPTIM": {"LR": 1e-3}}),
        fingerprint_of(tmp_path, digest="e"),
    }
    assert len(others - {same}) == 2
    with pytest.raises(DataError, match=r"none\.json: No such file.* expected a data set manifest"):
        identify("x", Settings(), tmp_path / "none.json")


def write_teacher(folder: Path, settings: Settings, weights: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.safetensors").write_bytes(weights)
    RunIdentity("t", settings, "dataset.json", "abc", "d").write(folder)
    return folder


@pytest.mark.parametrize("key", ["PRETRAINED", "SPYNET", "TEACHER"])
def test_the_bytes_of_weights_decide_and_their_place_does_not(tmp_path, key):
    def fingerprint(folder: Path, contents: bytes) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "w.pth").write_bytes(contents)
        if key != "TEACHER":
            return fingerprint_of(tmp_path, MODEL={"VRT": {key: str(folder / "w.pth")}})
        teacher = write_teacher(folder, Settings(), contents)
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
    settings = Settings.model_validate(
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
    with pytest.raises(RunError, match=r"TEACHER: .*none.* train that preset first"):
        fingerprint_of(tmp_path, TRAIN={"DISTILL": {"TEACHER": str(tmp_path / "none")}})
    weights = {"LOSS": {"LPIPS": {"WEIGHT": 0.1}}, "WEIGHTS": {"DIR": str(tmp_path)}}
    with pytest.raises(DataError, match=r"alexnet.*: no such file; `snakemake --cores 1 weights`"):
        fingerprint_of(tmp_path, **weights)


def test_every_key_that_names_weights_is_among_those_of_a_training():
    every = Settings.model_validate(
        {
            "MODEL": {"VRT": {"PRETRAINED": "p.pth", "SPYNET": "s.pth"}},
            "TRAIN": {"DISTILL": {"TEACHER": "t"}},
        }
    )

    def named(section: BaseModel, prefix: str) -> set[str]:
        found = set()
        for name, schema in type(section).model_fields.items():
            value = getattr(section, name)
            if names_weights(schema):
                found.add(prefix + name)
            elif isinstance(value, BaseModel):
                found |= named(value, f"{prefix}{name}.")
        return found

    files = training_weights(every)
    assert named(every, "") == set(files)
    assert files["TRAIN.DISTILL.TEACHER"] == Path("t/weights.safetensors")


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ({}, []),
        ({"VGG_PERCEPTUAL": {"WEIGHT": 0.1}}, ["vgg16-397923af.pth"]),
        ({"VGG_PERCEPTUAL": {"WEIGHT": 0.1, "WEIGHTS": "random"}}, []),
        ({"LPIPS": {"WEIGHT": 0.1}}, ["alexnet-owt-7be5be79.pth"]),
        ({"LPIPS": {"WEIGHT": 0.1, "NET": "vgg"}}, ["vgg16-397923af.pth"]),
    ],
)
def test_losses_ask_for_their_backbones(loss, expected):
    settings = Settings.model_validate({"LOSS": loss, "WEIGHTS": {"DIR": "w"}})
    assert list(training_weights(settings).values()) == [Path("w") / name for name in expected]


def test_an_evaluation_asks_for_the_backbone_of_lpips():
    def files(metrics: list[str]) -> dict[str, Path]:
        values = {"TEST": {"METRICS": metrics}, "WEIGHTS": {"DIR": "w"}}
        return evaluation_weights(Settings.model_validate(values))

    assert files(["psnr", "ssim"]) == {}
    assert files(["lpips"]) == {"TEST.METRICS": Path("w/alexnet-owt-7be5be79.pth")}


def test_a_model_with_spikes_is_refused_on_a_data_set_without(tmp_path):
    dataset = write_dataset(tmp_path / "dataset.json", None)
    with pytest.raises(ConfigError, match=r"USE_SPIKE to false.*high_frame_rate") as caught:
        identify("x", Settings(), dataset)
    assert str(dataset) in str(caught.value)
    plain = Settings.model_validate({"MODEL": {"USE_SPIKE": False}})
    assert identify("x", plain, dataset).dataset == str(dataset)
    teacher = write_teacher(tmp_path / "teacher", plain, b"")
    student = Settings.model_validate(
        {"MODEL": {"USE_SPIKE": False}, "TRAIN": {"DISTILL": {"TEACHER": str(teacher)}}}
    )
    identify("x", student, dataset)
    write_teacher(teacher, Settings(), b"")
    with pytest.raises(ConfigError, match=r"with TRAIN\.DISTILL\.TEACHER .*teacher: no sequence"):
        identify("x", student, dataset)


def test_the_identity_is_read_as_written(tmp_path):
    settings = Settings.model_validate({"TRAIN": {"OPTIM": {"LR": 1e-3}}, "SEED": 7})
    run = RunIdentity("small", settings, "/data/dataset.json", "abc", "d", {"SPYNET": "e"})
    run.write(tmp_path)
    assert RunIdentity.read(tmp_path) == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: {k: v for k, v in c.items() if k != "dataset"}, "dataset is missing"),
        (lambda c: {**c, "settings": {"TRAIN": {"NOVEL": 1}}}, "another version"),
        (lambda c: {**c, "schema": 1}, "found schema 1, expected 2"),
        (lambda c: [], "found schema None"),
    ],
)
def test_what_is_no_identity_is_refused(tmp_path, change, message):
    RunIdentity("small", Settings(), "dataset.json", "abc").write(tmp_path)
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(RunError, match=f"settings.json.*{message}"):
        RunIdentity.read(tmp_path)


def test_a_damaged_identity_is_a_sentence(tmp_path):
    RunIdentity("small", Settings(), "dataset.json", "abc").write(tmp_path)
    path = tmp_path / "settings.json"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(
        RunError, match=r"settings\.json: damaged, no JSON .* train the preset again"
    ):
        RunIdentity.read(tmp_path)
    path.unlink()
    with pytest.raises(
        RunError, match=r"settings\.json: no such file; expected the folder of a run"
    ):
        RunIdentity.read(tmp_path)
