"""PSNR of a trained model on real frames whose sharp frames are known.

A sample is a file ``<name>.npz`` with a short clip:

- ``blur``: frames (T, H, W, 3), uint8;
- ``spikes``: packed bits (steps, h, ceil(w / 8)), uint8, and the columns ``w`` of the sensor;
- ``ex``: for each frame first step, end (exclusive) and step of the sharp frame (T, 3);
- ``k``: index of the frame that is judged, and ``truth``, that frame sharp (H, W, 3), uint8.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage.metrics import peak_signal_noise_ratio

from vrtspike import load
from vrtspike.data.exposure import Exposure
from vrtspike.restoration.trained_model import TrainedModel


def sample_psnr(run: Path, folder: Path) -> dict[str, float]:
    """Restore the samples of a folder with a finished run.

    Returns:
        PSNR in dB by name of the sample.

    Raises:
        FileNotFoundError: if the folder has no sample.
    """
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise FileNotFoundError(f"{folder}: no samples; expected files <name>.npz")
    model = load(run)
    return {file.stem: restored_psnr(model, file) for file in files}


def restored_psnr(model: TrainedModel, file: Path) -> float:
    """Restore a sample, and compare the judged frame with the sharp one."""
    with np.load(file) as sample:
        spikes = np.unpackbits(sample["spikes"], axis=-1, count=int(sample["w"]))
        exposures = [Exposure(int(first), int(end), float(at)) for first, end, at in sample["ex"]]
        restored = model.restore(sample["blur"], spikes, exposures=exposures)
        frame = np.asarray(restored[int(sample["k"])])
        return float(peak_signal_noise_ratio(sample["truth"], frame, data_range=255))
