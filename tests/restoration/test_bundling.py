"""Runs that become the bundled weights."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.helpers.concurrency import run_python
from tests.helpers.small_run import COMMIT, private_words, write_light_run
from vrtspike.evaluation.evaluate import evaluate_run
from vrtspike.io.files import file_digest, write_json
from vrtspike.io.weights import floating_type
from vrtspike.restoration import bundling
from vrtspike.restoration.bundling import bundle_weights
from vrtspike.restoration.loading import load
from vrtspike.runs import named_models
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published
from vrtspike.system.errors import RunError

FILES = {
    "README.md",
    "evaluation.json",
    "run.json",
    "settings.json",
    "statistics.json",
    "weights.safetensors",
}


@pytest.fixture(scope="module")
def finished(small_run, tmp_path_factory) -> Path:
    """A folder like ``results`` with a finished and evaluated run named general."""
    folder: Path = tmp_path_factory.mktemp("results")
    train, output = folder / "train/general", folder / "evaluate/general"
    write_light_run(small_run, train)
    output.mkdir(parents=True)
    weights, run = train / "weights.safetensors", read_published(train)
    evaluate_run(EvaluationJob(weights, run, small_run.dataset, output, torch.device("cpu")))
    return folder


@pytest.fixture
def results(finished, tmp_path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "results"))


@pytest.fixture
def former(tmp_path) -> Path:
    """The folder of weights that were bundled before."""
    folder = tmp_path / "package/general"
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_text("former")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_pack_in_half_precision_replaces_former_weights(finished, former, small_run):
    run = finished / "train/general"
    (former / "surplus").touch()
    assert bundle_weights(run, output=former) == former
    assert set(contents(former)) == FILES
    assert [path.name for path in former.parent.iterdir()] == [former.name]
    assert floating_type(former / "weights.safetensors") == "float16"
    assert load(former, device="cpu").limits == load(run, device="cpu").limits
    card = (former / "README.md").read_text()
    digest = read_published(run).dataset_digest
    for words in (
        "seed 123",
        f"commit `{COMMIT}`",
        f"digest `{digest}`",
        "settings.json",
        "| psnr",
    ):
        assert words in card
    for name, content in contents(former).items():
        assert not [word for word in private_words(small_run) if word in content], name
    before = contents(former)
    bundle_weights(run, output=former)
    assert contents(former) == before


def test_without_a_folder_they_become_those_of_the_package(finished, former, monkeypatch):
    monkeypatch.setattr(named_models, "_BUNDLED", former.parent)
    assert bundle_weights(finished / "train/general") == former
    assert load(device="cpu").weights == file_digest(former / "weights.safetensors")


def test_the_script_takes_the_folder_of_the_evaluation(repository, results, former):
    evaluation = shutil.move(results / "evaluate/general", results / "evaluation")
    options = {"--run": results / "train/general", "--evaluation": evaluation, "--output": former}
    words = [str(word) for option in options.items() for word in option]
    done = run_python(repository / "scripts/bundle_weights.py", *words)
    assert re.fullmatch(rf"{former}: 0\.\d MB, sound\n", done.stdout), done.stderr
    assert set(contents(former)) == FILES


def change_record(**entries: object) -> Callable[[Path], None]:
    """A change of ``run.json``."""

    def change(results: Path) -> None:
        path = results / "train/general/run.json"
        write_json(path, json.loads(path.read_text()) | entries)

    return change


def change_settings(**entries: object) -> Callable[[Path], None]:
    """A change of ``settings.json``."""

    def change(results: Path) -> None:
        path = results / "train/general/settings.json"
        write_json(path, json.loads(path.read_text()) | entries)

    return change


def remove(name: str) -> Callable[[Path], None]:
    """The removal of a file."""
    return lambda results: (results / name).unlink()


def flip_a_bit(results: Path) -> None:
    path = results / "train/general/weights.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[-4] ^= 1
    path.write_bytes(damaged)


def forget_limits(results: Path) -> None:
    path = results / "train/general/statistics.json"
    write_json(path, json.loads(path.read_text()) | {"limits": None})
    change_record(digests={})(results)


def grow(results: Path) -> None:
    path = results / "train/general/weights.safetensors"
    weights = load_file(path)
    weights[min(weights)].fill_(1e5)
    save_file(weights, path)
    change_record(digests={})(results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_record(status="running"), r"run\.json: the run is running, expected finished"),
        (remove("train/general/run.json"), r"run\.json: no such file; expected the folder of a"),
        (remove("evaluate/general/summary.json"), r"general: no metrics: evaluate it first"),
        (change_settings(fingerprint="fedcba987654"), r"general: no metrics: evaluate it first"),
        (change_settings(name="other"), "a run of the preset other, expected one of general"),
        (flip_a_bit, r"weights\.safetensors: was changed after it was published"),
        (forget_limits, r"statistics\.json: no limits of recordings"),
        (grow, r"weights too large for half precision \(1\):\n  - \S+: largest magnitude 100000,"),
    ],
)
def test_an_unfit_run_is_refused_and_former_weights_stay(results, former, change, message):
    change(results)
    with pytest.raises(RunError, match=message):
        bundle_weights(results / "train/general", output=former)
    assert contents(former) == {"weights.safetensors": b"former"}
    assert [path.name for path in former.parent.iterdir()] == [former.name]


def test_a_pack_that_is_too_large_is_refused(finished, former, monkeypatch):
    monkeypatch.setattr(bundling, "MAX_BYTES", 9_000)
    with pytest.raises(RunError, match=r"general: packed, [\d,]+ bytes, expected at most 9,000;"):
        bundle_weights(finished / "train/general", output=former)
    assert contents(former) == {"weights.safetensors": b"former"}
