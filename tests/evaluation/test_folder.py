from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from skimage.metrics import structural_similarity

from vrtspike.config import Settings
from vrtspike.data.clips.dataset import load_dataset
from vrtspike.data.raw.images import read_rgb
from vrtspike.evaluation.folder import SIMULATED, restore_folder
from vrtspike.evaluation.restore import load_model
from vrtspike.evaluation.sources import FolderSequence
from vrtspike.evaluation.tiling import Tiling
from vrtspike.models import build_model
from vrtspike.runs.identity import RunIdentity

CPU = torch.device("cpu")


def test_restored_frames_comparisons_and_record(small_run, tmp_path):
    sequence = small_run.raw / "test" / "b"
    source = FolderSequence(sequence / "blur", sequence / "spike", 4)
    model = load_model(small_run.train / "weights.safetensors", small_run.settings, CPU)
    seen = []
    started = time.monotonic()
    record = restore_folder(
        model, source, load_dataset(small_run.dataset).statistics, CPU, Tiling(0, 0, 3, 1),
        tmp_path, spikes="recorded", sharp=sequence / "sharp",
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(n, 5) for n in range(1, 6)]
    assert 0 < 5 * record["seconds_per_frame"] <= time.monotonic() - started
    assert [frame["frame"] for frame in record["frames"]] == [f"{n:06d}" for n in range(1, 6)]
    assert (record["size"], record["tile"], record["window"]) == ([48, 64], 0, 3)
    for frame in record["frames"]:
        name = f"{frame['frame']}.png"
        restored = read_rgb(tmp_path / "restored" / name)
        blur, sharp = (read_rgb(sequence / kind / name) for kind in ("blur", "sharp"))
        assert np.abs(restored.astype(int) - blur).max() > 5
        for column, image in (("_blur", blur), ("", restored)):
            error = np.mean((image.astype(float) - sharp) ** 2)
            assert frame[f"psnr{column}"] == pytest.approx(10 * np.log10(255**2 / error))
            _, similarity = structural_similarity(
                image.astype(float), sharp.astype(float), data_range=255, gaussian_weights=True,
                sigma=1.5, use_sample_covariance=False, full=True, channel_axis=-1,
            )  # fmt: skip
            assert frame[f"ssim{column}"] == pytest.approx(similarity[5:-5, 5:-5].mean())
        # Seven times enlarged, below a band for the labels.
        picture = read_rgb(tmp_path / "comparison" / name)[24:, ::7]
        np.testing.assert_array_equal(picture[: 7 * 48 : 7, :64], blur)
    assert json.loads((tmp_path / "restore.json").read_text()) == record


def restore(repository, sequence, train, output, *options, status=0):
    command = [sys.executable, "scripts/restore.py", "--weights", train / "weights.safetensors"]
    command += ["--settings", train / "settings.json", "--blur", sequence / "blur"]
    command += ["--output", output, "--tile", "32", "--device", "cpu", *options]
    done = subprocess.run(
        [*map(str, command)], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if status == 0 else done.stderr


def test_the_program_says_that_spikes_are_simulated(small_run, repository, tmp_path):
    sequence = small_run.raw / "test" / "b"
    options = ("--statistics", small_run.dataset, "--simulate-spikes")
    out = restore(repository, sequence, small_run.train, tmp_path, *options)
    record = json.loads((tmp_path / "restore.json").read_text())
    assert record["tile"] == 32
    assert record["spikes"] == SIMULATED
    assert "simulated from the blurry frames" in out
    assert len(list((tmp_path / "restored").iterdir())) == 5
    refused = restore(repository, sequence, small_run.train, tmp_path, *options[:2], status=2)
    assert "give --spikes or --simulate-spikes\n" in refused


def test_a_model_without_spikes_takes_none(small_run, repository, tmp_path):
    sequence, train = small_run.raw / "test" / "b", tmp_path / "train"
    train.mkdir()
    chosen = small_run.settings.model_dump(mode="json")
    chosen["MODEL"]["USE_SPIKE"] = False
    settings = Settings.model_validate(chosen)
    RunIdentity("small", settings, str(small_run.dataset), "abc").write(train)
    model = build_model(settings.MODEL, bins=4, clip_len=3, crop_size=32)
    save_file(model.state_dict(), train / "weights.safetensors")
    output = tmp_path / "output"
    refused = restore(repository, sequence, train, output, "--simulate-spikes", status=2)
    assert "trained without spikes" in refused
    assert "leave out --simulate-spikes" in refused
    out = restore(repository, sequence, train, output, "--sharp", sequence / "sharp")
    assert out.startswith("spikes: none, the model takes none")
    record = json.loads((output / "restore.json").read_text())
    # A new network returns its input.
    assert all(abs(frame["psnr"] - frame["psnr_blur"]) < 0.5 for frame in record["frames"])
