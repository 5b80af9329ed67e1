"""Augmentation of whole samples: all parts of a sample change alike."""

from __future__ import annotations

import numpy as np
import torch

from vrtspike.data.clips.array_augmentation import (
    SensorFaults,
    add_faults,
    decimate_counts,
    flip_transpose,
    halve_pictures,
    halve_sensor,
)
from vrtspike.data.clips.recording_limits import MAX_FAULTS, MAX_THRESHOLD
from vrtspike.data.clips.samples import RatioChange, Sample

MAX_THRESHOLD_SPREAD = 0.05
"""Maximum standard deviation of the threshold between pixels, as a share of it."""


def flip_sample(sample: Sample, rows: bool, columns: bool, transpose: bool) -> None:
    """Flip and then transpose all arrays of a sample alike, in place of the old ones."""
    if not (rows or columns or transpose):
        return
    sample["blur"] = flip_transpose(sample["blur"], 1, rows, columns, transpose)
    sample["sharp"] = flip_transpose(sample["sharp"], 1, rows, columns, transpose)
    if "counts" in sample:
        sample["counts"] = flip_transpose(sample["counts"], 2, rows, columns, transpose)


def raise_threshold(sample: Sample, random: np.random.Generator) -> None:
    """Replace the spikes of a sample by those of a sensor with a higher threshold."""
    size = sample["counts"].shape[-2:]
    factor = random.uniform(1, MAX_THRESHOLD)
    spread = random.uniform(0, MAX_THRESHOLD_SPREAD)
    factors = np.maximum(1, factor * (1 + spread * random.standard_normal(size)))
    waiting = factors * random.random(size)
    sample["counts"] = decimate_counts(sample["counts"], factors, waiting)
    sample["gain"] = factor * sample["gain"]


def add_sensor_faults(sample: Sample, random: np.random.Generator) -> None:
    """Replace the spikes of a sample by those of a sensor with faults."""
    rates = {name: random.uniform(0, max_rate) for name, max_rate in MAX_FAULTS.items()}
    faults = SensorFaults(**rates)
    before = sample["counts"].sum(1, dtype=torch.float32)
    sample["counts"] = add_faults(sample["counts"], sample["bin_steps"], random, faults)
    after = sample["counts"].sum(1, dtype=torch.float32)
    # The gain is that of the faulty sensor: spikes without light lower it.
    sample["gain"] *= (before * after).sum() / after.square().sum().clamp(min=1)


def draw_ratio_change(probability: float, random: np.random.Generator) -> RatioChange:
    """Draw the change of ratio of a batch; both changes are equally probable.

    Args:
        probability: probability of any change.
        random: draws it.
    """
    draw = random.random()
    if draw < probability / 2:
        return "camera"
    if draw < probability:
        return "sensor"
    return ""


def change_ratio(sample: Sample, change: RatioChange) -> None:
    """Replace the frames of a sample, or its spikes, by those of half as many rows and columns."""
    if change == "camera":
        sample["blur"] = halve_pictures(sample["blur"])
        sample["sharp"] = halve_pictures(sample["sharp"])
    if change == "sensor":
        # The seed comes from the spikes, so that a batch is the same in every process.
        random = np.random.default_rng(int(sample["counts"].sum()))
        sample["counts"] = halve_sensor(sample["counts"], random)
