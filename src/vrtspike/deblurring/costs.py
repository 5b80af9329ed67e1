"""What a training of a preset costs, from the counted and measured tables of ``benchmarks/``.

``preset_costs.json`` beside this file is written by ``benchmarks/preset_costs.py``: arithmetic and
memory of a clip, counted, and its time on five GPUs, estimated from these counts
(``docs/presets.md`` says how). Another clip costs in proportion to its pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import json_digest, read_json
from vrtspike.training.optimizers import total_steps

FILE = Path(__file__).with_name("preset_costs.json")

GIB = 2**30
_MOMENTS = 3
"""Times its size that a model's checkpoint has: weights and two moments."""


@cache
def table() -> Mapping[str, Any]:
    """The contents of the file."""
    found: Mapping[str, Any] = read_json(FILE)
    return found


@dataclass(frozen=True)
class ClipCost:
    """What one clip costs.

    Attributes:
        peak_gib: of GPU memory for a micro-step of one clip, weights and moments included.
        kept_gib: what each further clip of a micro-step adds to it.
        tflop: forward and backward pass, without what is recomputed.
        parameters: of the model.
        ms: on each GPU of the table, milliseconds.
    """

    peak_gib: float
    kept_gib: float
    tflop: float
    parameters: int
    ms: Mapping[str, float]

    def scaled(self, factor: float) -> ClipCost:
        """Of a clip with so many times the pixels."""
        fixed = self.peak_gib - self.kept_gib
        times = {gpu: ms * factor for gpu, ms in self.ms.items()}
        return ClipCost(
            max(0.0, fixed) + self.kept_gib * factor,
            self.kept_gib * factor,
            self.tflop * factor,
            self.parameters,
            times,
        )


def model_digest(settings: Settings) -> str:
    """Tells models apart by what they compute, whatever weights they begin with."""
    model = settings.MODEL.model_dump(mode="json")
    for name in ("PRETRAINED", "SPYNET"):
        del model["VRT"][name]
    return json_digest(model)


def clip_cost(name: str, settings: Settings, side: int | None = None) -> ClipCost | None:
    """What a clip of a preset costs.

    Args:
        name: of the preset.
        settings: of it; its model is looked for in the table, under its name first.
        side: of the crop; None is ``DATA.CROP_SIZE``.

    Returns:
        None for a model that the table does not hold.
    """
    rows = table()["presets"]
    model = model_digest(settings)
    names = [name, *rows] if name in rows else list(rows)
    row = next((rows[other] for other in names if rows[other]["model"] == model), None)
    if row is None:
        return None
    counted = ClipCost(row["peak_gib"], row["kept_gib"], row["tflop"], row["parameters"], row["ms"])
    crop = settings.DATA.CROP_SIZE if side is None else side
    return counted.scaled(settings.DATA.CLIP_LEN * crop**2 / math.prod(row["clip"]))


def gpu_ms(cost: ClipCost, bandwidth: float) -> float:
    """Milliseconds of a clip on a GPU that is known by its memory's bandwidth.

    Between the GPUs of the table time follows a power of the bandwidth; outside of them it is in
    proportion to that of the next one.

    Args:
        cost: of the clip.
        bandwidth: bytes a second by the data sheet.
    """
    known = sorted((gpu["bandwidth"], cost.ms[name]) for name, gpu in table()["gpus"].items())
    if bandwidth <= known[0][0]:
        return known[0][1] * known[0][0] / bandwidth
    for (low, slow), (high, fast) in pairwise(known):
        if bandwidth <= high:
            share = math.log(bandwidth / low) / math.log(high / low)
            return slow * (fast / slow) ** share
    return known[-1][1] * known[-1][0] / bandwidth


@dataclass(frozen=True)
class TrainingCost:
    """A whole training.

    Attributes:
        steps: optimiser steps.
        clips: that one GPU sees, each time it does.
        mean: of a clip, over the phases.
        largest: a clip of the largest crop, which decides about memory.
        batch: clips of a micro-step.
    """

    steps: int
    clips: int
    mean: ClipCost
    largest: ClipCost
    batch: int

    @property
    def gpu_gib(self) -> float:
        """Memory that a GPU needs."""
        return self.largest.peak_gib + (self.batch - 1) * self.largest.kept_gib

    def checkpoint_gib(self, kept: int) -> float:
        """Disk that the checkpoints of a run take, the best and its weights included."""
        return (kept + 1) * _MOMENTS * 4 * self.mean.parameters / GIB


def training_steps(settings: Settings, sequences: int, frames: int, gpus: int = 1) -> int:
    """Optimiser steps of a training; arguments as for :func:`training_cost`."""
    train = settings.TRAIN
    clips = max(1, frames - sequences * (settings.DATA.CLIP_LEN - 1))
    per_epoch = max(1, clips // (train.BATCH_SIZE * max(1, gpus)))
    return total_steps(settings, per_epoch, train.GRADIENT_ACCUMULATION_STEPS)


def training_cost(
    name: str, settings: Settings, sequences: int, frames: int, gpus: int
) -> TrainingCost | None:
    """What training a preset costs.

    Args:
        name: of the preset.
        settings: of it.
        sequences: of the training split.
        frames: blurry frames of all of them; every run of CLIP_LEN frames is a clip.
        gpus: that share the work; 0 counts as 1.

    Returns:
        None for a model that the table does not hold.
    """
    train, data = settings.TRAIN, settings.DATA
    phases = [(phase.CROP_SIZE, phase.EPOCHS) for phase in train.PROGRESSIVE]
    phases = phases or [(data.CROP_SIZE, train.EPOCHS)]
    largest = clip_cost(name, settings, max(side for side, _ in phases))
    if largest is None:
        return None
    epochs = sum(count for _, count in phases)
    area = sum(side**2 * count for side, count in phases) / epochs
    mean = largest.scaled(area / max(side for side, _ in phases) ** 2)
    steps = training_steps(settings, sequences, frames, gpus)
    seen = steps * train.GRADIENT_ACCUMULATION_STEPS * train.BATCH_SIZE
    return TrainingCost(steps, seen, mean, largest, train.BATCH_SIZE)
