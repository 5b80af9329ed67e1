"""What a training of a preset costs, from the steps that ``benchmarks/presets.py`` has counted.

``preset_costs.json`` beside this file holds memory and arithmetic of a micro-step of each preset
(:mod:`vrtspike.deblurring.step_cost`). Another clip costs in proportion to its pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vrtspike.io.files import json_digest, read_json
from vrtspike.settings import Settings
from vrtspike.training.arithmetic import TRAINING_FACTOR
from vrtspike.training.optimizers import total_steps

FILE = Path(__file__).with_name("preset_costs.json")

GIB = 2**30
_FLOAT32 = 4
_MOMENTS = {"adamw": 8, "adamw8bit": 2}
"""Bytes of the optimizer's two moments for each parameter."""
_CHECKPOINT = 3 * _FLOAT32
"""Bytes of a checkpoint for each parameter: weight and two moments."""


@cache
def table() -> Mapping[str, Any]:
    """The contents of the file."""
    return read_json(FILE)


def state_bytes(parameters: int, settings: Settings) -> int:
    """Bytes of weights, gradients, the optimizer's moments and the moving average.

    Args:
        parameters: how many numbers are learned.
        settings: ``TRAIN.OPTIM.TYPE`` and ``TRAIN.EMA`` are read.
    """
    train = settings.TRAIN
    each = 2 * _FLOAT32 + _MOMENTS[train.OPTIM.TYPE] + _FLOAT32 * (train.EMA > 0)
    return parameters * each


@dataclass(frozen=True)
class ClipCost:
    """What one clip costs.

    Attributes:
        state_gib: GPU memory that a training takes whatever its clips.
        clip_gib: GPU memory for each clip of a micro-step.
        tflop: forward and backward pass, without what is recomputed.
        run_tflop: the same with what is recomputed.
        parameters: of the model.
    """

    state_gib: float
    clip_gib: float
    tflop: float
    run_tflop: float
    parameters: int


def model_digest(settings: Settings) -> str:
    """Tells models apart by what they compute, whatever weights they begin with."""
    model = settings.MODEL.model_dump(mode="json", exclude={"PRETRAINED"})
    for name in ("PRETRAINED", "SPYNET"):
        del model["VRT"][name]
    if settings.MODEL.TYPE == "vrt_spike":
        del model["NAF"]  # sizes of the light model
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
    model = model_digest(settings)
    rows = {key: row for key, row in table()["presets"].items() if row["model"] == model}
    if not rows:
        return None
    row = rows.get(name) or next(iter(rows.values()))
    crop = settings.DATA.CROP_SIZE if side is None else side
    pixels = settings.DATA.CLIP_LEN * crop**2 / math.prod(row["clip"])
    return ClipCost(
        state_bytes(row["parameters"], settings) / GIB,
        row["clip_gib"] * pixels,
        row["tflop"] * pixels,
        row["run_tflop"] * pixels,
        row["parameters"],
    )


FRAME_SIDE = 256
"""Side of the frame that :func:`forward_gflop` is of, as of most published figures."""


def forward_gflop(name: str, settings: Settings) -> float | None:
    """GFLOP of the forward pass for a frame of 256 x 256 pixels; None for an unknown model.

    Args:
        name: of the preset.
        settings: of it.
    """
    cost = clip_cost(name, settings, FRAME_SIDE)
    if cost is None:
        return None
    return 1000 * cost.tflop / TRAINING_FACTOR / settings.DATA.CLIP_LEN


@dataclass(frozen=True)
class TrainingCost:
    """A whole training.

    Attributes:
        steps: optimiser steps.
        clips: that one GPU sees, each time it does.
        run_tflop: of a clip with what is recomputed, on average over the phases.
        largest: a clip of the largest crop, which decides about memory.
        batch: clips of a micro-step.
    """

    steps: int
    clips: int
    run_tflop: float
    largest: ClipCost
    batch: int

    @property
    def gpu_gib(self) -> float:
        """Memory that a GPU needs."""
        return self.largest.state_gib + self.batch * self.largest.clip_gib

    def checkpoint_gib(self, kept: int) -> float:
        """Disk that the checkpoints of a run take, with the one that is being written."""
        return (kept + 1) * _CHECKPOINT * self.largest.parameters / GIB


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
    side = max(side for side, _ in phases)
    largest = clip_cost(name, settings, side)
    if largest is None:
        return None
    area = sum(side**2 * count for side, count in phases) / sum(count for _, count in phases)
    clips = max(1, frames - sequences * (data.CLIP_LEN - 1))
    per_epoch = max(1, clips // (train.BATCH_SIZE * max(1, gpus)))
    steps = total_steps(settings, per_epoch, train.GRADIENT_ACCUMULATION_STEPS)
    seen = steps * train.GRADIENT_ACCUMULATION_STEPS * train.BATCH_SIZE
    return TrainingCost(steps, seen, largest.run_tflop * area / side**2, largest, train.BATCH_SIZE)
