"""Runs that are packed and used elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from tests.faults import disks
from tests.helpers.small_run import COMMIT, arrays, private_words, write_light_run
from vrtspike.commands.main import run_command
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.io.files import file_digest, read_json, write_json
from vrtspike.io.weights import floating_type, read_weights
from vrtspike.models import build_model
from vrtspike.restoration.loading import load
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import find_trained_model
from vrtspike.runs.published import read_published
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import ConfigError, DataError, RunError


@pytest.fixture(scope="module")
def results(small_run, tmp_path_factory) -> Path:
    """A folder like ``results`` with an evaluated run."""
    folder: Path = tmp_path_factory.mktemp("results")
    train = folder / "train/given"
    write_light_run(small_run, train)
    output = folder / "evaluate/given"
    output.mkdir(parents=True)
    weights, run = train / "weights.safetensors", read_published(train)
    device = torch.device("cpu")
    evaluate_run(EvaluationJob(weights, run, small_run.dataset, output, device))
    return folder


@pytest.fixture(scope="module")
def packed(results, tmp_path_factory) -> Path:
    output: Path = tmp_path_factory.mktemp("packed") / "given_model"
    assert not run_command(
        ["pack", str(results / "train/given"), "-o", str(output), "--licence", "mit"]
    )
    return output


@pytest.fixture(scope="module")
def half(results, tmp_path_factory) -> Path:
    """The same run, packed in half precision."""
    output: Path = tmp_path_factory.mktemp("half") / "given_model"
    assert not run_command(["pack", str(results / "train/given"), "-o", str(output), "--half"])
    return output


def flip_a_bit(file: Path) -> None:
    """Change a file so little that it can still be read."""
    contents = bytearray(file.read_bytes())
    contents[-4] ^= 1
    file.write_bytes(contents)


def test_the_pack_and_its_card_name_half_precision(packed, half):
    for folder, name in ((packed, "float32"), (half, "float16")):
        assert floating_type(folder / "weights.safetensors") == name
        assert json.loads((folder / "run.json").read_text())["weights_precision"] == name
    rounded = "weights are kept in float16; the metrics were measured before this rounding"
    assert f"\n- {rounded}\n" in (half / "README.md").read_text()
    assert "\n- weights are kept in float32\n" in (packed / "README.md").read_text()


def test_weights_in_half_precision_are_widened_when_they_are_loaded(results, half, sequence):
    rounded = {
        name: tensor.half().float()
        for name, tensor in read_weights(results / "train/given/weights.safetensors").items()
    }
    model, whole = load(half, device="cpu"), load(results / "train/given", device="cpu")
    settings = whole.settings.model_dump(mode="json")
    settings["MODEL"]["PRETRAINED"] = str(half)
    started = build_model(DeblurringSettings.model_validate(settings))
    for network in (model.network, started):
        tensors = network.state_dict()
        assert tensors.keys() == rounded.keys()
        for name, tensor in tensors.items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, rounded[name])
    clip = arrays(sequence)
    np.testing.assert_allclose(model.restore(*clip), whole.restore(*clip).astype(int), atol=2)


def test_a_packed_run_restores_as_the_run_does(results, packed, sequence):
    clip = arrays(sequence)
    expected = load(results / "train/given", device="cpu").restore(*clip)
    np.testing.assert_array_equal(load(packed, device="cpu").restore(*clip), expected)


def test_a_full_disk_is_reported_before_anything_is_written(results, tmp_path):
    if reason := disks.missing():
        pytest.skip(reason)
    run = str(results / "train/given")
    place = tmp_path / "small"
    with disks.small_disk(place, 1):
        (place / "other").write_bytes(bytes(950_000))
        with pytest.raises(RunError, match=r"small/model: 0\.\d MB are needed, 0\.\d MB are free"):
            run_command(["pack", run, "-o", str(place / "model")])
        assert [path.name for path in place.iterdir()] == ["other"]


def test_metrics_and_card_name_the_measured_data(results, packed):
    summary = json.loads((results / "evaluate/given/summary.json").read_text())
    evaluation = json.loads((packed / "evaluation.json").read_text())
    assert evaluation["metrics"] == summary["metrics"]
    assert evaluation["protocol"] == "own"
    card = (packed / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\n")
    assert f"\n- seed 123\n- code at commit `{COMMIT}`, with changes that were not commi" in card
    psnr = summary["metrics"]["psnr"]
    before, after = (f"{psnr[name]:.4g}" for name in ("blurry", "restored"))
    assert f"| psnr | {before} | {after} | " in card
    settings = json.loads((packed / "settings.json").read_text())
    assert f"digest `{settings['dataset_digest']}`; fingerprint of the run `0123456789ab`." in card
    assert "no evidence of what was there.\nSpikes are expected with integrating pixels" in card
    digests = json.loads((packed / "run.json").read_text())["digests"]
    assert digests == {
        path.name: file_digest(path)
        for path in packed.iterdir()
        if path.name not in ("run.json", "README.md")
    }


def test_a_packed_run_holds_no_private_words(packed, small_run):
    words = private_words(small_run)
    for path in packed.iterdir():
        contents = path.read_bytes()
        assert not [word for word in words if word in contents], path.name
    settings = json.loads((packed / "settings.json").read_text())["settings"]
    assert [settings["LOG"][key] for key in ("ON_END", "WANDB", "MLFLOW")] == [None] * 3
    assert settings["DATA"]["ROOT"] == small_run.raw.name


@pytest.mark.parametrize("name", ["settings.json", "statistics.json", "run.json"])
def test_endless_brackets_in_a_packed_run_are_reported(packed, tmp_path, name):
    copy = shutil.copytree(packed, tmp_path / "copy")
    (copy / name).write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(RunError, match=rf"{name}: (damaged, no JSON|was changed after)"):
        load(copy, device="cpu")


def test_the_command_verifies_runs_and_packs_and_names_all_damage(
    results, packed, half, tmp_path, capsys
):
    sound = [str(results / "train/given"), str(packed), str(half)]
    assert not run_command(["verify", *sound])
    assert capsys.readouterr().out.splitlines() == [f"{place}: sound" for place in sound]
    damaged = [str(tmp_path / name) for name in ("weights", "statistics")]
    for folder, name in zip(damaged, ("weights.safetensors", "statistics.json"), strict=True):
        flip_a_bit(Path(shutil.copytree(half, folder), name))
    with pytest.raises(DataError) as caught:
        run_command(["verify", *damaged, "typo", str(half)])
    lines = [*(f"{place}: damaged" for place in damaged), f"{half}: sound"]
    assert capsys.readouterr().out.splitlines() == lines
    message = str(caught.value)
    assert message.startswith("damaged models (2):\n")
    assert "/weights/weights.safetensors: was changed after it was published" in message
    assert "/statistics/statistics.json: was changed after it was published" in message
    assert "no such models (1):\n  - typo: no such file or folder\nName general (the" in message


def test_a_card_counts_the_samples_of_all_processes_of_the_first_start(small_run, tmp_path):
    train = tmp_path / "train/resumed"
    write_light_run(small_run, train)
    settings = read_json(train / "settings.json")
    settings["settings"]["TRAIN"] |= {"BATCH_SIZE": 2, "GRADIENT_ACCUMULATION_STEPS": 2}
    write_json(train / "settings.json", settings)
    # Begun by four processes, continued by two.
    record = read_json(train / "run.json") | {"step": 100, "processes": 2, "micro_batches": 8}
    write_json(train / "run.json", record)

    def training(folder: Path, name: str) -> str:
        run_command(["pack", str(folder), "-o", str(tmp_path / name)])
        card = (tmp_path / name / "README.md").read_text()
        return card.partition("## Training\n\n")[2].splitlines()[0]

    assert training(train, "pack") == "- 100 steps of 16 samples"
    assert training(tmp_path / "pack", "again") == "- 100 steps of 16 samples"
    earlier = read_json(tmp_path / "pack/run.json")
    del earlier["micro_batches"]
    write_json(tmp_path / "pack/run.json", earlier)
    assert training(tmp_path / "pack", "of_earlier") == "- 100 steps"


def test_the_command_verifies_models_of_other_tasks(results, tmp_path, capsys):
    folders = [tmp_path / name for name in ("sound", "changed", "cut")]
    for folder in folders:
        shutil.copytree(results / "train/given", folder)
        RunIdentity("given", SSTSettings(TASK="sst"), "", "").write(folder)
    flip_a_bit(folders[1] / "weights.safetensors")
    (folders[2] / "weights.safetensors").write_bytes(b"cut")
    with pytest.raises(DataError, match=r"^damaged models \(2\):\n") as caught:
        run_command(["verify", *map(str, folders)])
    assert capsys.readouterr().out.splitlines() == [
        f"{folders[0]}: sound", f"{folders[1]}: damaged", f"{folders[2]}: damaged",
    ]  # fmt: skip
    assert "/changed/weights.safetensors: was changed after it was published" in str(caught.value)
    assert "/cut/weights.safetensors: not a whole safetensors file" in str(caught.value)


def test_names_in_a_card_are_shown_as_they_are(small_run, tmp_path):
    name = "a_b*c*`d`<i>[e](f)"
    write_light_run(small_run, tmp_path / "train" / name)
    words = ["pack", str(tmp_path / "train" / name), "-o", str(tmp_path / "out")]
    run_command([*words, "--licence", "mit\ntags: [x]"])
    card = (tmp_path / "out/README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert (front["license"], front["tags"]) == (
        "mit\ntags: [x]",
        ["deblurring", "spike-camera"],
    )
    assert "\n# a\\_b\\*c\\*\\`d\\`\\<i\\>\\[e\\](f)\n" in card
    assert f'vrtspike.load("{name}")' in card


@pytest.mark.parametrize("kind", ["packed", "half"])
def test_a_changed_byte_is_detected(kind, request, tmp_path):
    packed = request.getfixturevalue(kind)
    for name in ("weights.safetensors", "evaluation.json"):
        copy = tmp_path / name
        copy.mkdir()
        for path in packed.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        flip_a_bit(copy / name)
        with pytest.raises(RunError, match=f"{name}: was changed after it was published"):
            load(copy, device="cpu")
    (copy / "evaluation.json").unlink()
    with pytest.raises(RunError, match=r"evaluation\.json: was changed .* found no such file"):
        load(copy, device="cpu")


def test_missing_parts_are_reported_and_existing_files_stay(small_run, packed, tmp_path, capsys):
    write_light_run(small_run, tmp_path / "train/alone")
    words = ["pack", str(tmp_path / "train/alone"), "-o", str(tmp_path / "out")]
    run_command(words)
    output = capsys.readouterr().out
    assert "note: no metrics: evaluate it first (snakemake --cores all evaluate_alone)" in output
    assert "None: the run was not evaluated." in (tmp_path / "out/README.md").read_text()
    with pytest.raises(ConfigError, match="already exists; give another name"):
        run_command(words)
    (tmp_path / "train/alone/weights.safetensors").unlink()
    with pytest.raises(RunError, match=r"weights\.safetensors: no such file"):
        run_command([*words[:-1], str(tmp_path / "other")])
    RunIdentity("alone", SSTSettings(TASK="sst"), "", "").write(tmp_path / "train/alone")
    with pytest.raises(ConfigError, match="preset alone: TASK is sst; expected deblurring: name"):
        run_command([*words[:-1], str(tmp_path / "other")])
    assert not (tmp_path / "other").exists()


def test_a_model_of_the_hub_is_fetched(packed, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.chdir(tmp_path)

    def fetch(name: str, allow_patterns: list[str]) -> str:
        if name != "somebody/given":
            raise OSError("no such repository\nand more")
        assert {path.name for path in packed.iterdir()} <= set(allow_patterns)
        return str(packed)

    monkeypatch.setattr(hub, "snapshot_download", fetch)
    assert find_trained_model("somebody/given") == packed
    message = (
        r"else: no such folder, expected .* finished run.* has no .*\[hub\]'\): no such repo\w+$"
    )
    with pytest.raises(RunError, match=message):
        find_trained_model("somebody/else")
