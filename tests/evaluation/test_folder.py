from __future__ import annotations

import json
import subprocess
import sys

import torch

from vrtspike.data.dataset import load_dataset
from vrtspike.data.images import read_rgb
from vrtspike.evaluation.folder import SIMULATED, restore_folder
from vrtspike.evaluation.restore import load_model
from vrtspike.evaluation.sources import FolderSequence
from vrtspike.evaluation.tiling import Tiling

CPU = torch.device("cpu")


def test_restored_frames_comparisons_and_record(small_run, tmp_path):
    sequence = small_run.raw / "test" / "b"
    source = FolderSequence(sequence / "blur", sequence / "spike", 4)
    model = load_model(small_run.train / "weights.safetensors", small_run.settings, CPU)
    seen = []
    record = restore_folder(
        model, source, load_dataset(small_run.dataset).statistics, CPU, Tiling(0, 0, 3, 1),
        tmp_path, spikes="recorded", sharp=sequence / "sharp",
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen[-1] == (5, 5)
    for frame in record["frames"]:
        restored = read_rgb(tmp_path / "restored" / f"{frame['frame']}.png")
        assert restored.shape == (48, 64, 3)
        assert (tmp_path / "comparison" / f"{frame['frame']}.png").is_file()
        assert frame["psnr_blur"] > 15
    assert json.loads((tmp_path / "restore.json").read_text()) == record


def test_the_program_says_that_spikes_are_simulated(small_run, repository, tmp_path):
    sequence = small_run.raw / "test" / "b"
    done = subprocess.run(
        [
            sys.executable, "scripts/restore.py",
            "--weights", small_run.train / "weights.safetensors",
            "--settings", small_run.train / "settings.json",
            "--statistics", small_run.dataset, "--blur", sequence / "blur", "--simulate-spikes",
            "--output", tmp_path, "--tile", "32", "--device", "cpu",
        ],
        cwd=repository, capture_output=True, text=True, check=True,
    )  # fmt: skip
    record = json.loads((tmp_path / "restore.json").read_text())
    assert record["tile"] == 32
    assert record["spikes"] == SIMULATED
    assert "simulated from the blurry frames" in done.stdout
    assert len(list((tmp_path / "restored").iterdir())) == 5
