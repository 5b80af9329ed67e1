"""Cost of training a preset, from the steps that ``benchmarks/presets.py`` has counted.

``preset_costs.json`` next to this file holds memory, arithmetic, operations and memory traffic of a
micro-step of each preset (``benchmarks/preset_step_cost.py``). Another clip costs in proportion to
its pixels; the number of operations does not depend on the clips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.files import json_digest, read_json
from vrtspike.training.flops import TRAINING_FACTOR
from vrtspike.training.optimizers import count_steps

COSTS_FILE = Path(__file__).with_name("preset_costs.json")

GIB = 2**30
_FLOAT32 = 4
_MOMENTS = {"adamw": 8, "adamw8bit": 2}
"""Bytes of the optimiser's two moments for each parameter."""


@cache
def counted_costs() -> Mapping[str, Any]:
    """Read :data:`COSTS_FILE`."""
    return read_json(COSTS_FILE)


def state_bytes(parameters: int, settings: DeblurringSettings) -> int:
    """Compute the bytes of weights, gradients, the optimiser's moments and the moving average.

    Args:
        parameters: number of learned parameters.
        settings: ``TRAIN.OPTIM.TYPE`` and ``TRAIN.EMA`` are read.
    """
    train = settings.TRAIN
    bytes_per_parameter = 2 * _FLOAT32 + _MOMENTS[train.OPTIM.TYPE]
    if train.EMA > 0:
        bytes_per_parameter += _FLOAT32
    return parameters * bytes_per_parameter


@dataclass(frozen=True)
class ClipCost:
    """Cost of one clip.

    Attributes:
        state_gib: GPU memory of a training without clips.
        clip_gib: GPU memory for each clip of a micro-step.
        tflop: three times the TFLOP of the forward pass, an estimate of forward and backward pass
            without recomputation.
        run_tflop: TFLOP counted in forward and backward pass, with recomputation.
        moved_tb: TB that the operations of a micro-step read and write for each clip.
        operations: operations of a micro-step.
        parameters: number of parameters of the model.
    """

    state_gib: float
    clip_gib: float
    tflop: float
    run_tflop: float
    moved_tb: float
    operations: int
    parameters: int


def model_digest(settings: DeblurringSettings) -> str:
    """Return a digest of the network of a preset, independent of its initial weights."""
    exclude: dict[str, Any] = {"PRETRAINED": True, "VRT": {"PRETRAINED", "SPYNET"}}
    exclude |= dict.fromkeys(settings.MODEL.keys_of_other_networks, True)
    return json_digest(settings.MODEL.model_dump(mode="json", exclude=exclude))


def clip_cost(name: str, settings: DeblurringSettings, side: int | None = None) -> ClipCost | None:
    """Estimate the cost of a clip of a preset.

    Args:
        name: name of the preset; its row of the table comes before others with the same model.
        settings: settings of the preset.
        side: side of the crop in pixels; None is ``DATA.CROP_SIZE``.

    Returns:
        cost of the clip; None for a model that is not in the table.
    """
    model = model_digest(settings)
    rows = {key: row for key, row in counted_costs()["presets"].items() if row["model"] == model}
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
        row["moved_tb"] * pixels,
        row["operations"],
        row["parameters"],
    )


FRAME_SIDE = 256
"""Side of the frame of :func:`forward_gflop` in pixels, as in most published counts."""


def forward_gflop(name: str, settings: DeblurringSettings) -> float | None:
    """Estimate GFLOP of the forward pass for a frame of 256 x 256 pixels.

    Args:
        name: name of the preset.
        settings: settings of the preset.

    Returns:
        GFLOP for a frame; None for a model that is not in the table.
    """
    cost = clip_cost(name, settings, FRAME_SIDE)
    if cost is None:
        return None
    return 1000 * cost.tflop / TRAINING_FACTOR / settings.DATA.CLIP_LEN


@dataclass(frozen=True)
class TrainingCost:
    """Cost of a whole training.

    Attributes:
        steps: optimiser steps.
        clips: clips that one GPU processes, repetitions included.
        run_tflop: TFLOP of a clip with recomputation, averaged over the phases.
        moved_tb: TB of memory traffic of a clip, averaged over the phases.
        largest: cost of a clip of the largest crop, which determines the memory.
        batch: clips of a micro-step.
    """

    steps: int
    clips: int
    run_tflop: float
    moved_tb: float
    largest: ClipCost
    batch: int

    @property
    def gpu_gib(self) -> float:
        """Memory of one GPU."""
        return self.largest.state_gib + self.batch * self.largest.clip_gib

    def checkpoint_gib(self, kept: int) -> float:
        """Return the GiB of a run's checkpoints, including the one that is being written."""
        gradients = _FLOAT32 * self.largest.parameters / GIB  # no checkpoint holds them
        return (kept + 1) * (self.largest.state_gib - gradients)


def training_cost(
    name: str, settings: DeblurringSettings, sequences: int, frames: int, gpus: int
) -> TrainingCost | None:
    """Estimate the cost of training a preset.

    Args:
        name: name of the preset.
        settings: settings of the preset.
        sequences: number of sequences of the training split.
        frames: number of blurry frames in them; every CLIP_LEN successive frames are a clip.
        gpus: number of GPUs; 0 counts as 1.

    Returns:
        cost of the training; None for a model that is not in the table.
    """
    train = settings.TRAIN
    data = settings.DATA
    phases = [(phase.CROP_SIZE, phase.EPOCHS) for phase in train.PROGRESSIVE]
    if not phases:
        phases = [(data.CROP_SIZE, 1)]
    side = max(side for side, _ in phases)
    largest = clip_cost(name, settings, side)
    if largest is None:
        return None
    epochs = sum(count for _, count in phases)
    mean_area = sum(crop**2 * count for crop, count in phases) / epochs
    clips = max(1, frames - sequences * (data.CLIP_LEN - 1))
    per_epoch = max(1, clips // (train.BATCH_SIZE * max(1, gpus)))
    steps = count_steps(settings, per_epoch, train.GRADIENT_ACCUMULATION_STEPS)
    return TrainingCost(
        steps=steps,
        clips=steps * train.samples_per_step,
        run_tflop=largest.run_tflop * mean_area / side**2,
        moved_tb=largest.moved_tb * mean_area / side**2,
        largest=largest,
        batch=train.BATCH_SIZE,
    )
