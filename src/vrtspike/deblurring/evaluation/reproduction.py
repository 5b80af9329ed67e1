"""VRT's published weights, evaluated as its paper did: is the published figure found?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch

from vrtspike.analysis.evaluation_files import FRAMES, write_table
from vrtspike.deblurring.analysis.published import (
    PublishedFigure,
    require_published_frames,
    require_published_weights,
    vrt_on_gopro,
)
from vrtspike.deblurring.evaluation.given_clips import given_clip
from vrtspike.deblurring.evaluation.measure import ClipMeter, Scores
from vrtspike.deblurring.evaluation.pictures import folder_pictures
from vrtspike.deblurring.evaluation.protocols import PROTOCOLS
from vrtspike.deblurring.evaluation.restore import restore_frames, torch_compute
from vrtspike.deblurring.evaluation.tiling import Progress
from vrtspike.deblurring.models import build_model
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import RunError
from vrtspike.io.images import read_rgb

PROTOCOL = PROTOCOLS["vrt"]


def reproduce_vrt(
    settings: Settings,
    output: Path,
    device: torch.device,
    progress: Progress,
    expected: PublishedFigure | None = None,
) -> str:
    """Evaluate VRT's published weights without spikes under protocol ``vrt``.

    Frames are read from their files: nothing is prepared, and only the test split is needed.

    Args:
        settings: of a preset without spikes that starts from these weights.
        output: folder for ``frames.csv``, with PSNR and SSIM of each frame.
        device: where to compute.
        progress: called with the frames done and their total.
        expected: the published figure; None is VRT's on GoPro.

    Returns:
        what was expected and what was found.

    Raises:
        ConfigError: if the weights are not there.
        DataError: if the test split is not the one of the figure.
        RunError: if the figure is not found within the limit.
    """
    expected = expected or vrt_on_gopro()
    require_published_weights(settings)
    clips = require_published_frames(settings, str(PROTOCOL.blur_dir), expected)
    model = build_model(settings).float().eval().to(device)
    compute = torch_compute(model, None, device)
    root, tiling = Path(settings.DATA.ROOT), PROTOCOL.tiling(settings.TEST.TILE, 1)
    weights_dir = Path(settings.WEIGHTS.DIR)
    scores: Scores = {m: m.load(weights_dir, device) for m in PROTOCOL.metrics(("psnr", "ssim"))}
    rows: list[dict[str, Any]] = []
    progress(0, expected.frames)
    for files in clips:
        blur = [root / path for path in files.blur.values()]
        restored = restore_frames(
            compute,
            given_clip(folder_pictures(blur[0].parent, blur)),
            tiling,
            tiles_at_once=settings.TEST.BATCH_SIZE,
            readers=settings.TEST.NUM_WORKERS,
            rounded=False,
        )
        meter = ClipMeter(scores)
        for number, frame in zip(files.blur, restored, strict=True):
            sharp = read_rgb(root / files.sharp[number])
            figures = meter.measure({"restored": PROTOCOL.image(frame), "sharp": sharp})
            rows.append({"sequence": files.name, "frame": number, **figures})
            progress(len(rows), expected.frames)
    frames = pd.DataFrame(rows)
    write_table(output / FRAMES, frames)
    found = float(frames["psnr"].mean())
    verdict = expected.verdict(found)
    if not expected.is_found(found):
        raise RunError(
            f"{verdict}. The figures of all frames stand in {output / FRAMES}; look at the version "
            "of the weights, the blurry frames and the sharp ones"
        )
    return verdict
