"""Keys of the DATA section: the data set, the voxel grid, clips and their augmentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import model_validator

from vrtspike.config.fields import (
    NonNegative,
    NonNegativeFloat,
    NormalizedPath,
    Positive,
    PositiveFloat,
    Section,
    UnitFraction,
    key,
    operational,
)
from vrtspike.deblurring_settings.names import LayoutName

ROOT_KEYS: Mapping[tuple[str, str], frozenset[tuple[str, str]]] = {
    ("DATA", "ROOT"): frozenset(
        {
            ("DATA", "SPIKE_ROOT"),
            ("DATA", "TRAIN_SPLIT"),
            ("DATA", "TEST_SPLIT"),
            ("DATA", "TEST_ON_TRAINING_FRAMES"),
            ("DATA", "BLUR_DIR"),
            ("DATA", "LAYOUT"),
            ("DATA", "SPIKE_SIZE"),
        }
    )
}
"""Keys that describe the data set below a root, by the key of the root."""


class NormSettings(Section):
    """Mean and standard deviation of gain x rate; null: from the statistics stage."""

    MEAN: float | None = key("Mean of gain x spike rate, with the gain of each sequence", None)
    STD: PositiveFloat | None = key("Standard deviation of gain x spike rate", None)

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.MEAN is None) != (self.STD is None):
            raise ValueError("give both MEAN and STD, or neither")
        return self


class DataSettings(Section):
    """The data set, and clips cut from it."""

    ROOT: NormalizedPath = operational(
        "Folder of the raw data set (docs/data-formats.md)", "data/gopro_spike"
    )
    SPIKE_ROOT: NormalizedPath | None = operational(
        "Root of the spike files if it is a separate one; null: next to the frames",
        None,
    )
    TRAIN_SPLIT: str = key("Folder of the training sequences", "train", min_length=1)
    TEST_SPLIT: str = key("Folder of the test sequences", "test", min_length=1)
    VALIDATION: Literal["held_out", "test"] = key(
        "Sequences for validation: held_out, a tenth of the training sequences; test, the "
        "test sequences, which pages then say",
        "held_out",
    )
    TEST_ON_TRAINING_FRAMES: bool = operational(
        "Accept test frames that are training frames, and say so on the page",
        False,
    )
    BLUR_DIR: Literal["blur", "blur_gamma"] = key("Kind of blurry frames", "blur")
    LAYOUT: LayoutName = operational(
        "Names of folders and files; auto: recognised by the folders", "auto"
    )
    ON_ERROR: Literal["stop", "exclude"] = operational(
        "Sequences with faults: stop and list them all, or exclude and record them",
        "stop",
    )
    SPIKE_SIZE: tuple[Positive, Positive] | None = key(
        "Rows and columns of the sensor in its files (416 columns: the last 16 are no "
        "picture); null: from config.yaml, the .npz file or the layout",
        None,
    )
    CROP_SIZE: Positive = key("Side of a training crop in RGB pixels", 256, multiple_of=8)
    CLIP_LEN: Positive = key("Frames of a clip", 5)
    NUM_VOXEL_BINS: Positive = key("Bins of the voxel grid", 32, le=255)
    CONTEXT_STEPS: NonNegative = key(
        "Spike steps before and after the open shutter that voxels include",
        0,
    )
    USE_PRECOMPUTED_VOXELS: bool = operational(
        "Read stored counts; false: count the bits of the crop (equal tensors)", True
    )
    USE_RAM_CACHE: bool = operational("Keep decoded chunks of training clips in memory", True)
    CACHE_SIZE_GB: NonNegativeFloat = operational(
        "Memory for the cache, for all processes of this machine together", 4.0
    )
    NORM: NormSettings = key("Normalisation of the voxel grid", NormSettings())
    AUGMENT: bool = key("Random flips and transposition", True)
    THRESHOLD_AUGMENT: UnitFraction = key(
        "Probability that a training clip is simulated with up to three times the spike threshold",
        0.0,
    )
    FAULT_AUGMENT: UnitFraction = key(
        "Probability that a training clip gets dark counts, flipped bits, hot and dead "
        "pixels, and late spikes",
        0.0,
    )
    RATIO_AUGMENT: UnitFraction = key(
        "Probability that a training batch simulates a camera or a sensor with half as many rows "
        "and columns",
        0.0,
    )
    NEIGHBOURS: bool = key(
        "Clips also hold the spikes of the frames before and after; a quarter of the training "
        "clips do not, so that single frames can be restored, too; only spike_nafnet takes them",
        False,
    )

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if self.TEST_SPLIT == self.TRAIN_SPLIT and not self.TEST_ON_TRAINING_FRAMES:
            raise ValueError(
                f"DATA.TEST_SPLIT is {self.TEST_SPLIT!r}, the split that is trained on, so its "
                "metrics would be of training frames; expected another split. Name that, or set "
                "DATA.TEST_ON_TRAINING_FRAMES to true: the page then says so"
            )
        return self
