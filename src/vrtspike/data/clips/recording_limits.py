"""The recordings that a run was trained on: ranges of what decides how noisy their spikes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from vrtspike.data.manifests import StoreManifest

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.data import DataSettings

MAX_THRESHOLD = 3.0
"""Largest factor of the sensor's threshold in clips that DATA.THRESHOLD_AUGMENT chooses."""

MAX_FAULTS = {"dark": 0.02, "flipped": 0.02, "hot": 0.002, "dead": 0.002, "late": 0.1}
"""Maximum fault rates in clips that DATA.FAULT_AUGMENT chooses; see
:func:`vrtspike.data.clips.augmentation.add_faults`."""

MIN_CAMERA_RATIO = 2
"""Minimum ratio for cameras with half as many rows and columns, which DATA.RATIO_AUGMENT chooses:
their frames are at least as large as the sensor, as those of every recording."""

Range = tuple[float, float]
"""Smallest and largest value."""


@dataclass(frozen=True)
class RecordingLimits:
    """Ranges over the sequences of a training, or of one sequence.

    Attributes:
        gain: brightness of a spike rate of 1.
        rate: mean spikes of a pixel per step.
        ratio: height of the frames / height of the sensor.
        steps: spike steps of an exposure.
    """

    gain: Range
    rate: Range
    ratio: Range
    steps: Range

    def contents(self) -> dict[str, list[float]]:
        """Return JSON values, read by :meth:`parse`."""
        return {name: list(values) for name, values in asdict(self).items()}

    @classmethod
    def parse(cls, contents: Mapping[str, Sequence[float]]) -> RecordingLimits:
        """Return the inverse of :meth:`contents`.

        Raises:
            KeyError: if a range is missing.
            ValueError: if one is not a pair of numbers.
        """
        ranges = {}
        for field in fields(cls):
            low, high = contents[field.name]
            ranges[field.name] = (float(low), float(high))
        return cls(**ranges)


def limits_of_store(store: StoreManifest) -> dict[str, list[float]] | None:
    """Return the ranges of one sequence from its store's manifest; None without spikes."""
    if store["spike_size"] is None:
        return None
    spikes = 0
    steps = 0
    for bin_steps, histogram in store["histogram"].items():
        spikes += int(np.dot(np.arange(len(histogram)), histogram))
        steps += int(bin_steps) * sum(histogram)
    exposures = [stop - start for start, stop, _ in store["exposures"]]
    rate = spikes / steps
    ratio = store["rgb_size"][0] / store["spike_size"][0]
    gain = store["gain"]
    assert gain is not None, "stores with spikes have a gain"
    limits = RecordingLimits(
        (gain, gain), (rate, rate), (ratio, ratio), (min(exposures), max(exposures))
    )
    return limits.contents()


def training_limits(
    sequences: Sequence[RecordingLimits | None], data: DataSettings
) -> RecordingLimits | None:
    """Return the ranges of a training, its augmentation included.

    DATA.THRESHOLD_AUGMENT raises gains, and lowers rates, by up to :data:`MAX_THRESHOLD`.
    DATA.FAULT_AUGMENT adds spikes without light, which raises rates and lowers gains, and removes
    some. DATA.RATIO_AUGMENT doubles ratios, and halves those from :data:`MIN_CAMERA_RATIO`.

    Args:
        sequences: the ranges of each; None of one without spikes or of an older data set.
        data: DATA of the preset.

    Returns:
        None if the ranges of a sequence are unknown, or there is no sequence.
    """
    ranges = [sequence for sequence in sequences if sequence is not None]
    if not ranges or len(ranges) < len(sequences):
        return None
    merged = {}
    for field in fields(RecordingLimits):
        values = [getattr(sequence, field.name) for sequence in ranges]
        merged[field.name] = (min(low for low, _ in values), max(high for _, high in values))
    min_gain, max_gain = merged["gain"]
    min_rate, max_rate = merged["rate"]
    if data.THRESHOLD_AUGMENT > 0:
        max_gain *= MAX_THRESHOLD
        min_rate /= MAX_THRESHOLD
    if data.FAULT_AUGMENT > 0:
        added = MAX_FAULTS["dark"] + MAX_FAULTS["flipped"] + MAX_FAULTS["hot"]
        min_gain *= max_rate / (max_rate + added)
        max_rate += added
        min_rate *= 1 - MAX_FAULTS["flipped"] - MAX_FAULTS["dead"]
    min_ratio, max_ratio = merged["ratio"]
    if data.RATIO_AUGMENT > 0:
        max_ratio *= 2
        if min_ratio >= MIN_CAMERA_RATIO:
            min_ratio /= 2
    return RecordingLimits(
        (min_gain, max_gain), (min_rate, max_rate), (min_ratio, max_ratio), merged["steps"]
    )
