"""PSNR of a model on frames whose sharp frames are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import real_samples
from vrtspike import load
from vrtspike.data.exposure import Exposure
from vrtspike.runs.named_models import bundled_folder

SHARP_STEP = 20.0


@pytest.mark.filterwarnings("ignore:.*outside:UserWarning")
def test_the_judged_frame_is_restored_and_compared(tmp_path):
    generator = np.random.default_rng(0)
    blur = generator.integers(0, 255, (2, 16, 24, 3), dtype=np.uint8)
    spikes = generator.integers(0, 2, (88, 8, 12), dtype=np.uint8)
    truth = generator.integers(0, 255, (16, 24, 3), dtype=np.uint8)
    exposures = [(0, 44, SHARP_STEP), (44, 88, 44 + SHARP_STEP)]
    np.savez(
        tmp_path / "sample.npz",
        blur=blur,
        spikes=np.packbits(spikes, axis=-1),
        w=12,
        ex=np.array(exposures),
        k=1,
        truth=truth,
    )
    run = bundled_folder("general")
    model = load(run)
    restored = model.restore(
        blur, spikes, exposures=[Exposure(*exposure) for exposure in exposures], anyway=True
    )
    error = np.mean((restored[1].astype(float) - truth) ** 2)
    psnr = real_samples.sample_psnr(run, tmp_path)
    assert psnr == {"sample": pytest.approx(10 * math.log10(255**2 / error), rel=1e-12)}


def test_a_folder_without_samples_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no samples; expected files <name>\.npz"):
        real_samples.sample_psnr(bundled_folder("general"), tmp_path)
