"""Measure fine-tuning on a small data set of another sensor.

Compared are the weights ``general``, the same fine-tuned by the preset ``finetune``, and its
network trained from random weights in as many steps and at the rate of ``light_small``; the table
is in ``docs/general.md``.

Examples:
    python benchmarks/other_sensor.py
    snakemake --cores 2 results/data/other_sensor-blur_gamma/k32/dataset.json \\
      --config 'DATA={ROOT: data/other_sensor, BLUR_DIR: blur_gamma}'
    python benchmarks/fine_tuning.py --dataset results/data/other_sensor-blur_gamma/k32/dataset.json
"""

from __future__ import annotations

from collections.abc import Iterator

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
from vrtspike.system.program import run_main

STEPS = 800
EQUAL = {
    "DATA.ROOT": "data/other_sensor",
    "DATA.BLUR_DIR": "blur_gamma",
    "TRAIN.MAX_STEPS": STEPS,
    "TRAIN.EARLY_STOPPING": "null",
    "TEST.METRICS": "[psnr,ssim,tof]",
}
"""Keys of both trainings."""
VARIANTS = {
    # Without training, one seed is enough.
    "`general`, unchanged": Variant({**EQUAL, "TRAIN.MAX_STEPS": 0}, SEEDS[:1]),
    "**fine-tuned**": Variant(EQUAL),
    "from scratch": Variant({**EQUAL, "MODEL.PRETRAINED": "null", "TRAIN.OPTIM.LR": 2.0e-3}),
}


def measured(inputs: Inputs, runs: Runs) -> Iterator[None]:
    """Train and evaluate missing runs."""
    return measure_variants("finetune", VARIANTS, inputs, runs)


def section(runs: Runs) -> str:
    """Return the part of the page that this program writes."""
    blurry = next(iter(runs["**fine-tuned**"].values()))["blurry"]
    return (
        f"{variants_table(VARIANTS, runs, {'tof': ('tOF, px, mean', 2)})}\n\nSeeds "
        f"{', '.join(map(str, SEEDS))}; {STEPS} steps of six crops of 64 x 64 pixels; the blurry "
        f"frames have {blurry:.2f} dB. `python benchmarks/fine_tuning.py`."
    )


if __name__ == "__main__":
    page = ROOT / "docs" / "general.md"
    run_main(lambda: run_experiment("fine_tuning", page, section, measured, __doc__))
