"""Published weights under protocol ``vrt``, tried with small ones of the published form."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tests.deblurring.reference_metrics import decibels
from tests.evaluation.evaluations import CPU, raw_frames
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.evaluation.paper_results import PaperResult
from vrtspike.evaluation.reproduction import reproduce_vrt
from vrtspike.models.vrt import VRT
from vrtspike.models.vrt_checkpoints import load_vrt
from vrtspike.system.errors import DataError, RunError

pytestmark = pytest.mark.shared


def reproduce(settings, output, expected: PaperResult) -> str:
    return reproduce_vrt(settings, output, CPU, lambda done, total: None, expected)


@pytest.fixture
def settings(shared, small_run) -> DeblurringSettings:
    """A preset without spikes that starts from the golden weights."""
    configuration = json.loads((shared / "golden/vrt_tiny_config.json").read_text())
    return DeblurringSettings.model_validate(
        {
            "DATA": {
                "ROOT": str(small_run.raw),
                "NUM_VOXEL_BINS": 4,
                "CLIP_LEN": 6,
                "CROP_SIZE": 64,
            },
            "MODEL": {
                "USE_SPIKE": False,
                "VRT_DEPTHS": configuration["depths"],
                "WINDOW_SIZE": configuration["window_size"],
                "VRT": {
                    "PRETRAINED": str(shared / "golden/vrt_tiny_weights.safetensors"),
                    "EMBED_DIMS": configuration["embed_dims"],
                    "NUM_HEADS": 3,
                    "DEFORMABLE_GROUPS": 4,
                    "DROP_PATH_RATE": 0.0,
                },
            },
            "TEST": {"PROTOCOL": "own"},
        }
    )


@pytest.mark.endurance
def test_the_psnr_is_that_of_the_published_model_over_all_frames(
    settings, small_run, shared, tmp_path
):
    vrt = VRT(settings.MODEL).eval()
    load_vrt(vrt, load_file(shared / "golden/vrt_tiny_weights.safetensors"), "golden")
    psnr = []
    for sequence in "bc":
        blur, sharp = (raw_frames(small_run, sequence, kind) for kind in ("blur", "sharp"))
        with torch.no_grad():
            output = vrt(torch.from_numpy(blur.transpose(0, 3, 1, 2) / 255).float()[None])[0]
        restored = (255 * output.clamp(0, 1)).round().permute(0, 2, 3, 1).numpy()
        psnr += [decibels(*pair) for pair in zip(restored, sharp, strict=True)]
    mean = float(np.mean(psnr))
    message = reproduce(settings, tmp_path, PaperResult(round(mean, 2), 2, 10))
    assert message.startswith(f"found {mean:.3f} dB, expected {mean:.2f} dB: the difference of ")
    assert message.endswith("dB is within 0.02 dB")
    table = pd.read_csv(tmp_path / "frames.csv")
    assert table["psnr"].tolist() == pytest.approx(psnr, abs=1e-2)
    assert table["sequence"].tolist() == ["b"] * 5 + ["c"] * 5
    with pytest.raises(RunError, match=r"difference of \+0\.030 dB is beyond 0\.02 dB"):
        reproduce(settings, tmp_path, PaperResult(mean - 0.03, 2, 10))


def test_frames_without_a_sharp_one_are_refused_before_anything_is_restored(
    settings, small_run, tmp_path
):
    raw = tmp_path / "raw"
    shutil.copytree(small_run.raw / "test", raw / "test")
    (raw / "test/b/sharp/000002.png").unlink()
    data = settings.DATA.model_copy(update={"ROOT": str(raw)})
    with pytest.raises(DataError, match="test/b: frame 000002 has no sharp one"):
        reproduce(settings.model_copy(update={"DATA": data}), tmp_path, PaperResult(34.81, 2, 10))


def test_another_test_split_is_refused_before_anything_is_restored(settings, tmp_path):
    with pytest.raises(DataError, match=r"split test: 2 sequences of 10 frames; .* 11 of 1111"):
        reproduce(settings, tmp_path, PaperResult(34.81, 11, 1111))
    assert list(tmp_path.iterdir()) == []
