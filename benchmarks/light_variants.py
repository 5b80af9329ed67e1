"""Compare variants of the light model by quality and cost, with the preset ``light_demo``.

Each variant is trained with several seeds, two minutes of a core each, and measured on the test
sequences of the demo; the table is in ``docs/experiments.md``.

Examples:
    snakemake --cores 2 results/data/demo/k32/dataset.json
    python benchmarks/light_variants.py --samples FOLDER
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.flop_counter import FlopCounterMode

from experiments import (
    ROOT,
    SEEDS,
    Inputs,
    Runs,
    Variant,
    measure_variants,
    run_experiment,
    variants_table,
)
from vrtspike.data.clips.neighbors import voxel_frames
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.models import build_model
from vrtspike.system.program import run_main

SIDE = 128
"""Rows and columns of the frames on which the arithmetic of a frame is counted."""
REAL_FRAMES = ("gopro1", "spkgopro226", "sreds_200_part1")
"""Names of the real frames whose PSNR has a column."""
INDEPENDENT = {"DATA.CLIP_LEN": 1, "DATA.NEIGHBOURS": "true", "TRAIN.BATCH_SIZE": 6}
"""As many frames a step as in clips. Their neighbours' spikes come with the frame."""
VARIANTS = {
    "**light_demo**: 8 bins of either neighbour": Variant(),
    "no bins of neighbours": Variant({"MODEL.NAF.NEIGHBOUR_BINS": 0}),
    "independent frames": Variant(INDEPENDENT),
    "three blocks of spike features": Variant({"MODEL.NAF.SPIKE_BLOCKS": 3}),
    "learned enlargement of spike features": Variant({"MODEL.NAF.LEARNED_ENLARGEMENT": "true"}),
    # These differ by more than any seed.
    "with shuffled spikes": Variant({"MODEL.SPIKE_ORDER": "shuffled"}, SEEDS[:1]),
    "without spikes": Variant({"MODEL.USE_SPIKE": "false"}, SEEDS[:1]),
    "independent frames with shuffled spikes": Variant(
        {**INDEPENDENT, "MODEL.SPIKE_ORDER": "shuffled"}, SEEDS[:1]
    ),
    "independent frames without spikes": Variant(
        {**INDEPENDENT, "MODEL.USE_SPIKE": "false"}, SEEDS[:1]
    ),
}


def gflop(settings: DeblurringSettings) -> dict[str, float]:
    """Multiplications and additions of a frame's forward pass, in 10^9."""
    data = settings.DATA
    blur = torch.zeros(1, data.CLIP_LEN, 3, SIDE, SIDE)
    spike_frames = voxel_frames(data.CLIP_LEN, neighbors=data.NEIGHBOURS)
    voxels = torch.zeros(1, spike_frames, data.NUM_VOXEL_BINS, SIDE // 2, SIDE // 2)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        build_model(settings)(blur, voxels if settings.MODEL.USE_SPIKE else None)
    return {"gflop": counter.get_total_flops() / data.CLIP_LEN / 1e9}


def measured(inputs: Inputs, runs: Runs) -> Iterator[None]:
    """Train and evaluate what is not known yet."""
    return measure_variants("light_demo", VARIANTS, inputs, runs, gflop)


def section(runs: Runs) -> str:
    """Return the part of the page that this program writes."""
    columns = {
        **{sample: (f"`{sample}`", 2) for sample in REAL_FRAMES},
        "tof": ("tOF, px, mean", 2),
        "gflop": ("GFLOP a frame", 2),
    }
    return (
        f"{variants_table(VARIANTS, runs, columns)}\n\nSeeds {', '.join(map(str, SEEDS))}; mean "
        f"PSNR of {len(REAL_FRAMES)} real frames; GFLOP of the forward pass for {SIDE} x {SIDE} "
        "pixels. `python benchmarks/light_variants.py`. In italics: networks that were not kept, "
        "of commit 816c5ea8, and of 6c05e456 those without real frames."
    )


if __name__ == "__main__":
    page = ROOT / "docs" / "experiments.md"
    run_main(lambda: run_experiment("light_variants", page, section, measured, __doc__))
