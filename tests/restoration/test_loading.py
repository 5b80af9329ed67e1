"""Loading of trained models, from result folders alone."""

from __future__ import annotations

import shutil

import pytest
import torch

from vrtspike.data.clips.dataset_manifest import load_dataset
from vrtspike.io.files import file_digest
from vrtspike.restoration.loading import load
from vrtspike.system.errors import ConfigError, RunError

CPU = torch.device("cpu")


def test_a_result_folder_alone_makes_a_model(small_run, model, tmp_path):
    moved = tmp_path / "copied"
    shutil.copytree(small_run.train, moved)
    other = load(moved, device="cpu")
    assert other.statistics == load_dataset(small_run.dataset).statistics
    assert (other.run.name, other.run.fingerprint) == ("small", "0123456789ab")
    assert other.settings.DATA.NUM_VOXEL_BINS == 4
    assert other.weights == file_digest(small_run.train / "weights.safetensors")
    assert (other.device, other.precision) == (CPU, "float32")
    assert not other.network.training


@pytest.mark.parametrize(
    ("precision", "message"),
    [("float16", "found float16 on a CPU.*choose float32"), ("half", "expected auto, float32")],
)
def test_unknown_and_very_slow_precisions_are_refused(small_run, precision, message):
    with pytest.raises(ConfigError, match=f"precision: .*{message}"):
        load(small_run.train, device="cpu", precision=precision)


def test_folders_without_a_finished_run_are_refused(small_run, tmp_path):
    unfinished = shutil.copytree(small_run.train, tmp_path / "unfinished")
    (unfinished / "weights.safetensors").unlink()
    for place, message in (
        (tmp_path, r"run\.json: no such file; expected the folder"),
        (unfinished, r"weights\.safetensors: no such file; .* a finished run"),
    ):
        with pytest.raises(RunError, match=message):
            load(place, device="cpu")
