"""The crops that are shown without a choice of the user: where models differ most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from vrtspike.paper_figures.crop_boxes import CropSpec, default_size, differing_box
from vrtspike.paper_figures.results import ComparedResults

DEFAULT_CROPS = 2
"""Number of crops that are chosen, each of another sequence."""


def choose_crops(
    results: ComparedResults, frame_psnr: pd.DataFrame, sequences: Sequence[str]
) -> list[CropSpec]:
    """Choose a crop in each of the sequences where models differ most.

    Args:
        results: results of the models.
        frame_psnr: table from :meth:`ComparedResults.frame_psnr`.
        sequences: sequences to choose from; empty for all.
    """
    crops = []
    for sequence, frame in differing_frames(results, frame_psnr, sequences)[:DEFAULT_CROPS]:
        blurry = results.blurry(sequence, frame)
        sharp = results.sharp(sequence, frame)
        size = default_size(*blurry.shape[:2])
        box = differing_box(results.restored(sequence, frame), blurry, sharp, size)
        crops.append(CropSpec(sequence, frame, box))
    return crops


def differing_frames(
    results: ComparedResults, frame_psnr: pd.DataFrame, sequences: Sequence[str]
) -> list[tuple[str, str]]:
    """Return a frame of each sequence, the one where models differ most by PSNR.

    With one model it is the one that gains most, and without PSNR the one in the middle. Sequences
    where models differ more come first. Arguments as for :func:`choose_crops`.
    """
    chosen = []
    for sequence in results.sequences:
        frames = results.frames(sequence)
        if not frames or (sequences and sequence not in sequences):
            continue
        is_shown = (frame_psnr["sequence"] == sequence) & frame_psnr["frame"].isin(frames)
        groups = frame_psnr[is_shown].groupby("frame", sort=False)
        difference = groups["gain"].max()
        if len(results.models) > 1:
            difference = groups["psnr"].max() - groups["psnr"].min()
        # Equal frames have no finite PSNR.
        difference = difference[np.isfinite(difference.astype(float))]
        if len(difference) == 0:
            chosen.append((0.0, sequence, frames[len(frames) // 2]))
            continue
        frame = str(difference.idxmax())
        chosen.append((float(difference.max()), sequence, frame))
    chosen.sort(key=lambda entry: -entry[0])
    return [(sequence, frame) for _, sequence, frame in chosen]
