"""The one definition of a preset: every key, its type, range, default and meaning.

Attribute names are the keys of the YAML files. ``config/README.md`` and ``config/schema.json`` are
generated from here (``scripts/config_reference.py``), and a test catches drift.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.aliases import canonical_keys
from vrtspike.config.fields import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)
from vrtspike.config.loss_schema import LossSettings
from vrtspike.config.model_schema import ModelSettings
from vrtspike.config.names import LayoutName, MetricName
from vrtspike.config.train_schema import TrainSettings

SHUFFLED_CLIP_LEN = 3
"""Frames of the shortest training clips whose spikes can be shuffled: two frames can only change
places, which is an order that a model learns like the recorded one."""

SpikesAloneName = Literal["tfp", "tfi"]
"""Classical reconstructions from spikes (:mod:`vrtspike.deblurring.spike_images`)."""

_SHARE = re.compile(r"cpu\*(0?\.\d+|1(\.0*)?)$")


class NormSettings(Section):
    """Mean and standard deviation of gain x rate; null: from the statistics stage."""

    MEAN: float | None = key("Mean of gain x spike rate, the gain that of each sequence", None)
    STD: PositiveFloat | None = key("Standard deviation of gain x spike rate", None)

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.MEAN is None) != (self.STD is None):
            raise ValueError("give both MEAN and STD, or neither")
        return self


class DataSettings(Section):
    """What is read and how clips are cut."""

    ROOT: str = operational(
        "Folder of the data set (GoPro frames and spike files)", "data/gopro_spike"
    )
    TRAIN_SPLIT: str = key("Folder of the training sequences", "train", min_length=1)
    VAL_SPLIT: str = key("Folder of the test sequences", "test", min_length=1)
    BLUR_DIR: Literal["blur", "blur_gamma"] = key("Which blurry frames are used", "blur")
    LAYOUT: LayoutName = operational(
        "How folders and files are named; auto: found by looking at them", "auto"
    )
    ON_ERROR: Literal["stop", "exclude"] = operational(
        "Sequences with faults: stop with a list of all faults, or leave these sequences out and "
        "record it",
        "stop",
    )
    SPIKE_SIZE: tuple[Positive, Positive] | None = key(
        "Rows and columns of the spike sensor as in its files (416 columns: the last 16 are no "
        "picture); null: config.yaml beside the spikes or the .npz file, else half the frame's "
        "size",
        None,
    )
    CROP_SIZE: Positive = key("Side of a training crop in RGB pixels", 256, multiple_of=8)
    CLIP_LEN: Positive = key("Frames of a clip", 5)
    K: Positive = key("Bins of the voxel grid", 32, le=255)
    USE_PRECOMPUTED_VOXELS: bool = operational(
        "Read stored counts; false: voxelise the crop from the raw bits (equal tensors)", True
    )
    READER: Literal["tensorstore", "zarr"] = operational(
        "Library that reads stores; zarr is the reference implementation, slower and without cache",
        "tensorstore",
    )
    USE_RAM_CACHE: bool = operational(
        "Keep decoded chunks of training clips in memory; only with READER tensorstore", True
    )
    CACHE_SIZE_GB: NonNegativeFloat = operational(
        "Memory for the cache, for all processes of this machine together", 4.0
    )
    NORM: NormSettings = key("Normalisation of the voxel grid", NormSettings())
    AUGMENT: bool = key("Random flips and transposition", True)
    THRESHOLD_AUGMENT: Fraction = key(
        "Probability that a training clip is seen as by a spike sensor of twice the threshold",
        0.0,
    )


class DataloaderSettings(Section):
    """Worker processes and prefetching."""

    TOTAL_WORKERS: NonNegative | str = operational(
        "Workers of the machine: auto (80 % of the CPUs), 'cpu*0.9', or a number", "auto"
    )
    TRAIN_WORKERS: NonNegative | Literal["auto"] = operational("Training workers per GPU", "auto")
    VAL_WORKERS: NonNegative | Literal["auto"] = operational("Validation workers per GPU", "auto")
    TRAIN_PREFETCH_FACTOR: Positive = operational("Batches a training worker reads ahead", 4)
    VAL_PREFETCH_FACTOR: Positive = operational("Batches a validation worker reads ahead", 2)
    PIN_MEMORY: bool = operational("Page-locked host memory for copies to the GPU", True)
    PERSISTENT_WORKERS: bool = operational("Keep workers from one epoch to the next", True)
    SHUFFLE_BLOCK: Positive = key(
        "Successive clips that stay together when an epoch is shuffled; 1: all are shuffled", 1
    )
    DROP_LAST: bool = key("Drop an epoch's last, incomplete batch", True)

    @field_validator("TOTAL_WORKERS")
    @classmethod
    def _known_share(cls, value: int | str) -> int | str:
        if isinstance(value, str) and value != "auto" and not _SHARE.match(value):
            raise ValueError(f"found {value!r}, expected auto, 'cpu*0.9' (a share) or a number")
        return value


class LogSettings(Section):
    """Logs of a run; none of these changes a result unless early stopping watches it."""

    TENSORBOARD: bool = operational("Write TensorBoard files", True)
    VAL_EVERY_STEPS: Positive = operational("Optimiser steps between validations", 1000)
    VISUALS_EVERY_STEPS: Positive | None = operational(
        "Optimiser steps between pictures; null: at every validation", None
    )
    MEMORY_EVERY_STEPS: Positive = operational("Optimiser steps between memory lines", 100)
    ENABLE_TIMING_LOG: bool = operational("Measure sections of a step", True)
    TIMING_CONSOLE: bool = operational("Show timings in the terminal", True)
    TIMING_FILE: bool = operational("Write timings to a file", True)
    TIMING_CONSOLE_INTERVAL: Positive = operational("Steps between console updates", 10)
    TIMING_FILE_INTERVAL: Positive = operational("Steps between flushes of the file", 50)
    WANDB: str | None = operational(
        "Project of Weights & Biases that takes the figures (needs the package wandb); null: none",
        None,
        min_length=1,
    )
    MLFLOW: str | None = operational(
        "Experiment of MLflow that takes the figures (needs the package mlflow-skinny or mlflow; "
        "MLFLOW_TRACKING_URI says where); null: none",
        None,
        min_length=1,
    )
    ON_END: str | None = operational(
        "Shell command when a training has ended, however it did, such as 'mail -s "
        '"$VRTSPIKE_PRESET $VRTSPIKE_STATUS" me@example.org\'; null: none',
        None,
        min_length=1,
    )
    PROFILE_STEPS: tuple[Positive, Positive] | None = operational(
        "First and last step of a window under torch.profiler (logs/profile_*), such as [20, 22]",
        None,
    )

    @field_validator("PROFILE_STEPS")
    @classmethod
    def _window_in_order(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"found {list(value)}, expected the first step before the last")
        return value


class TileSettings(Section):
    """Tiles of full-frame inference."""

    SIZE: Positive = key("Side of a tile in pixels", 256, multiple_of=8)
    OVERLAP: NonNegative = key("Overlap of neighbouring tiles in pixels", 32, multiple_of=2)
    FRAMES: Positive | None = key("Frames of a temporal window; null: DATA.CLIP_LEN", None)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.OVERLAP * 2 > self.SIZE:
            raise ValueError(
                f"OVERLAP is {self.OVERLAP}; at most half of SIZE ({self.SIZE}) can overlap"
            )
        return self


class TestSettings(Section):
    """Evaluation on the test split."""

    BATCH_SIZE: Positive = operational("Tiles restored at once", 1)
    NUM_WORKERS: NonNegative = operational("Reading workers", 2)
    TILE: TileSettings = key("Tiling", TileSettings())
    EVAL_SCALES: tuple[PositiveFloat, ...] = key(
        "Scales of the input (1.0 is full size)", (1.0,), min_length=1
    )
    METRICS: tuple[MetricName, ...] = key(
        "Reported metrics", ("psnr", "psnr_y", "ssim", "lpips", "tof"), min_length=1
    )
    SPIKES_ALONE: SpikesAloneName | None = key(
        "Classical reconstruction from spikes alone to compare with: tfp (rate in a short window), "
        "tfi (inter-spike interval); null: none",
        "tfp",
    )
    SAVE_VIDEO: bool = key("Write a video per sequence", False)

    @field_validator("EVAL_SCALES")
    @classmethod
    def _each_once(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len({f"{scale:g}" for scale in value}) < len(value):
            # Frames would count twice, and files take each other's names.
            raise ValueError(f"found {list(value)}, expected each scale once (to six digits)")
        return value


class WeightsSettings(Section):
    """Pretrained backbones for perceptual terms and LPIPS."""

    DIR: str = operational("Folder of the backbone weights, verified by sha256", "weights")


class Settings(Section):
    """One preset, complete."""

    SEED: NonNegative = key("Seed of initialisation, order and augmentation", 123)
    DETERMINISTIC: bool = key(
        "Deterministic algorithms; on a GPU where PyTorch has them, a warning names the others; "
        "false lets cuDNN choose the fastest",
        False,
    )
    DATA: DataSettings = key("Data", DataSettings())
    MODEL: ModelSettings = key("Model", ModelSettings())
    DATALOADER: DataloaderSettings = key("Data loading", DataloaderSettings())
    TRAIN: TrainSettings = key("Training", TrainSettings())
    LOSS: LossSettings = key("Loss", LossSettings())
    LOG: LogSettings = key("Logs", LogSettings())
    TEST: TestSettings = key("Evaluation", TestSettings())
    WEIGHTS: WeightsSettings = key("Pretrained backbones", WeightsSettings())

    @model_validator(mode="after")
    def _enough_frames_to_shuffle(self) -> Self:
        if not self.MODEL.USE_SPIKE or self.MODEL.SPIKE_ORDER != "shuffled":
            return self
        asked = {
            "DATA.CLIP_LEN": (self.DATA.CLIP_LEN, SHUFFLED_CLIP_LEN),
            "TEST.TILE.FRAMES": (self.TEST.TILE.FRAMES, 2),
        }
        for name, (found, least) in asked.items():
            if found is not None and found < least:
                raise ValueError(
                    f"MODEL.SPIKE_ORDER is shuffled and {name} is {found}; expected {least} or "
                    f"more, so that there are other frames' spikes to give: raise {name}, or set "
                    "MODEL.SPIKE_ORDER to recorded"
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _accept_older_spellings(cls, data: Any) -> Any:  # noqa: ANN401 - raw YAML
        return canonical_keys(data) if isinstance(data, dict) else data
