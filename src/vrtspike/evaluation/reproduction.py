"""Reproduction of the published result of VRT, from published weights and raw frames."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from vrtspike.analysis.evaluation_files import FRAMES, write_table
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.evaluation.measure import FrameReferences, FrameRow, measured_frames
from vrtspike.evaluation.paper_results import (
    PaperResult,
    require_published_frames,
    require_published_weights,
    vrt_on_gopro,
)
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.models import build_model
from vrtspike.restoration.inputs.clip_frames import FolderFrames
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.restoration.tiled_inference import torch_tile_model
from vrtspike.system.errors import RunError
from vrtspike.system.progress_bar import ProgressCallback


def reproduce_vrt(
    settings: DeblurringSettings,
    output: Path,
    device: torch.device,
    progress: ProgressCallback,
    expected: PaperResult | None = None,
) -> str:
    """Evaluate VRT's published weights without spikes as its paper did, under protocol ``vrt``.

    Frames are read from their files: nothing is prepared, and only the test split is needed.

    Args:
        settings: settings of a preset without spikes that starts from these weights.
        output: folder for ``frames.csv``, with PSNR and SSIM of each frame.
        device: the device that computes.
        progress: called with the frames done and their total.
        expected: the published result; None is VRT's on GoPro.

    Returns:
        the comparison of both results in a sentence.

    Raises:
        ConfigError: if the weights are missing.
        DataError: if the test split is not the one of the published result.
        RunError: if the PSNR differs by more than the limit.
    """
    expected = expected or vrt_on_gopro()
    protocol = PROTOCOLS["vrt"]
    require_published_weights(settings)
    clips = require_published_frames(settings, str(protocol.blur_dir), expected)
    model = build_model(settings).float().eval().to(device)
    tile_model = torch_tile_model(model, None, device)
    root = Path(settings.DATA.ROOT)
    options = StoreOptions.from_settings(settings.DATA)
    weights_dir = Path(settings.WEIGHTS.DIR)
    metrics = protocol.metrics(("psnr", "ssim"))
    functions_by_protocol = {
        protocol: {metric: metric.load(weights_dir, device) for metric in metrics}
    }
    rows: list[FrameRow] = []
    progress(0, expected.frames)
    for files in clips:
        blurry_files = [root / path for path in files.blur.values()]
        sharp_files = [root / files.sharp[number] for number in files.blur]
        blurry = FolderFrames(root, blurry_files)
        sharp = FolderFrames(root, sharp_files)
        source = InputClip(blurry, None, options)
        references = (
            FrameReferences(blurry.frame(index), sharp.frame(index))
            for index in range(len(blurry.names))
        )
        frames = measured_frames(
            files.name, source, references, tile_model, functions_by_protocol, settings
        )
        for frame_rows, _ in frames:
            rows += frame_rows
            progress(len(rows), expected.frames)
    table = pd.DataFrame(rows)
    write_table(output / FRAMES, table)
    psnr = float(table["psnr"].mean())
    text = expected.comparison_text(psnr)
    if not expected.is_reproduced_by(psnr):
        raise RunError(
            f"{text}. The metrics of all frames are in {output / FRAMES}; look at the version "
            "of the weights, the blurry frames and the sharp ones"
        )
    return text
