"""The one definition of a preset of the deblurring: every key, its type, range, default, meaning.

Attribute names are the keys of the YAML files. ``config/README.md`` and ``config/schema.json`` are
generated from here (``scripts/config_reference.py``), and a test catches drift.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.aliases import Aliases
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
from vrtspike.config.reading import Document
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.variants import Ablation
from vrtspike.deblurring.settings.ablation import ABLATION
from vrtspike.deblurring.settings.aliases import ALIASES
from vrtspike.deblurring.settings.losses import LossSettings
from vrtspike.deblurring.settings.model import ModelSettings
from vrtspike.deblurring.settings.names import LayoutName, MetricName
from vrtspike.deblurring.settings.vrt_arguments import with_vrt_arguments
from vrtspike.deblurring.settings.workflow import VideoWorkflow
from vrtspike.errors import ConfigError

SHUFFLED_CLIP_LEN = 3
"""Frames of the shortest training clips whose spikes can be shuffled: two frames can only change
places, which is an order that a model learns like the recorded one."""

SpikesAloneName = Literal["tfp", "tfi"]
"""Classical reconstructions from spikes (:mod:`vrtspike.deblurring.spike_images`)."""


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


class Settings(RunSettings):
    """One preset of the deblurring, complete."""

    aliases: ClassVar[Aliases] = ALIASES
    ablation: ClassVar[Ablation | None] = ABLATION
    workflow: ClassVar[type[Section]] = VideoWorkflow
    # What voxelisation gives is part of the data set's digest.
    observers: ClassVar[tuple[str, ...]] = ("data.manifests", "data.store.voxels.voxelize_packed")
    watched: ClassVar[tuple[str, ...] | None] = ("psnr", "ssim")

    DATA: DataSettings = key("Data", DataSettings())
    MODEL: ModelSettings = key("Model", ModelSettings())
    LOSS: LossSettings = key("Loss", LossSettings())
    TEST: TestSettings = key("Evaluation", TestSettings())
    WEIGHTS: WeightsSettings = key("Pretrained backbones", WeightsSettings())

    @classmethod
    def completed(cls, document: Document) -> Document:
        """The keys of a preset above the arguments of the file that ``MODEL.VRT_CFG`` names."""
        return with_vrt_arguments(document)

    @property
    def dataset_name(self) -> str:
        """What a data source is called as a preset uses it."""
        data = self.DATA
        suffix = "" if data.BLUR_DIR == "blur" else f"-{data.BLUR_DIR}"
        suffix += "" if data.ON_ERROR == "stop" else f"-{data.ON_ERROR}"
        name = Path(data.ROOT).resolve().name
        return (re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._") or "data") + suffix

    @property
    def idle(self) -> frozenset[tuple[str, str]]:
        """Losses that are off."""
        known = type(self.LOSS).model_fields
        return frozenset(("LOSS", name) for name in known if name not in self.LOSS.active)

    @property
    def named_files(self) -> dict[str, str | None]:
        """Files that a training reads, by the key that names them."""
        vrt = self.MODEL.VRT
        return {
            "MODEL.VRT_CFG": self.MODEL.VRT_CFG,
            "MODEL.VRT.PRETRAINED": vrt.PRETRAINED,
            "MODEL.VRT.SPYNET": vrt.SPYNET,
        }

    @property
    def recomputing(self) -> tuple[str, ...]:
        """Keys that are on and compute activations again; the first one saves least memory."""
        return self.MODEL.recomputing

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


def deblurring_settings(settings: RunSettings, preset: str = "") -> Settings:
    """These settings, if they are a preset of the deblurring.

    Args:
        settings: of any problem.
        preset: its name, for the message.

    Raises:
        ConfigError: if they are of another problem.
    """
    if not isinstance(settings, Settings):
        who = f"preset {preset}: " if preset else ""
        raise ConfigError(
            f"{who}TASK is {settings.TASK}; this is for presets of the deblurring, name one of "
            "those"
        )
    return settings
