"""The one definition of a preset of the deblurring: every key, its type, range, default, meaning.

Attribute names are the keys of the YAML files. ``config/README.md`` and ``config/schema.json`` are
generated from here (``scripts/config_reference.py``), and a test catches drift.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.ablations import Ablation, Variant
from vrtspike.config.documents import Document
from vrtspike.config.fields import (
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Place,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)
from vrtspike.config.loading import load_preset
from vrtspike.config.old_keys import COMMON, OldKey, OldKeys
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.runs.named_models import missing_start_advice
from vrtspike.settings.losses import LossSettings
from vrtspike.settings.model import ModelSettings, with_vrt_arguments
from vrtspike.settings.names import LayoutName, MetricName
from vrtspike.settings.train import VideoTrainSettings
from vrtspike.settings.workflow import VideoWorkflow
from vrtspike.system.errors import ConfigError

SHUFFLED_CLIP_LEN = 3
"""Frames of the shortest training clips whose spikes can be shuffled: two frames can only change
places, which is an order that a model learns like the recorded one."""

SpikesAloneName = Literal["tfp", "tfi"]
"""Classical reconstructions from spikes (:mod:`vrtspike.data.spike_images`)."""

ProtocolName = Literal["own", "vrt", "spkdeblurnet", "ssdm"]
"""How figures are measured (:mod:`vrtspike.evaluation.protocols`)."""


_NO_GAIN = OldKey(values={False: False}, reason="it gained nothing")
_CHUNKS = OldKey(reason="chunks have pixels of any place")

# What keys were called in older files.
OLD_KEYS: OldKeys = {
    **COMMON,
    ("DATA", "TRAIN_CROP_SIZE"): OldKey(("DATA", "CROP_SIZE")),
    ("DATA", "K"): OldKey(("DATA", "NUM_VOXEL_BINS")),
    ("MODEL", "VRT", "use_checkpoint_attn"): OldKey(("MODEL", "VRT", "USE_CHECKPOINT_ATTN")),
    ("MODEL", "VRT", "use_checkpoint_ffn"): OldKey(("MODEL", "VRT", "USE_CHECKPOINT_FFN")),
    ("DATA", "READER"): OldKey(reason="stores are read by tensorstore"),
    ("TEST", "EVAL_SCALES"): OldKey(reason="frames are evaluated at full size"),
    ("MODEL", "LAYERS"): OldKey(
        values={4: 4}, reason="the spike encoder has 4 scales, one for each scale of VRT"
    ),
    ("MODEL", "CHANNELS_PER_SCALE"): OldKey(
        reason="the spike encoder's scales are as wide as MODEL.VRT.EMBED_DIMS of stages 1-4"
    ),
    ("MODEL", "FUSE", "TYPE"): OldKey(
        values={"TemporalCrossAttn": ""}, reason="spike features are fused by attention along time"
    ),
    ("MODEL", "DISABLE_KERNELS"): OldKey(reason="PyTorch computes every operation"),
    ("MODEL", "SPIKE_TSA", "TIME_BIAS"): _NO_GAIN,
    ("MODEL", "FUSE", "TIME_BIAS"): _NO_GAIN,
    ("MODEL", "FUSE", "DIRECT"): _NO_GAIN,
    ("MODEL", "SPIKE_TSA", "CHUNK_SHAPE"): _CHUNKS,
    ("MODEL", "FUSE", "CHUNK_SHAPE"): _CHUNKS,
    ("MODEL", "VRT", "RECOMPUTE"): OldKey(
        reason="MODEL.VRT.USE_CHECKPOINT_ATTN and USE_CHECKPOINT_FFN say what is recomputed"
    ),
}

# What the spikes are worth.
ABLATION = Ablation(
    title="What the spikes are worth",
    label="spikes",
    phrase="with them",
    note=(
        "The three models of a preset have the same data, seed and settings. 'Without spikes' is "
        "the backbone alone. With 'shuffled spikes' every frame gets the spikes of another frame "
        "of its clip: as many parameters and the same spikes, but nothing tells which belong to "
        "which frame. 'difference' is by how much a model is better than that with spikes."
    ),
    needs={"MODEL.USE_SPIKE": True, "MODEL.SPIKE_ORDER": "recorded"},
    variants=(
        Variant(
            "without spikes", "-without-spikes", "MODEL.USE_SPIKE=false", phrase="without spikes"
        ),
        Variant(
            "shuffled spikes",
            "-shuffled-spikes",
            "MODEL.SPIKE_ORDER=shuffled",
            phrase="with shuffled spikes",
            no_worse="This model makes no use of which spikes belong to which frame.",
        ),
    ),
)


# What data are like and where their spikes are.
ROOT_KEYS: Mapping[tuple[str, str], frozenset[tuple[str, str]]] = {
    ("DATA", "ROOT"): frozenset(
        ("DATA", name)
        for name in (
            "SPIKE_ROOT",
            "TRAIN_SPLIT",
            "VAL_SPLIT",
            "TEST_ON_TRAINING_FRAMES",
            "BLUR_DIR",
            "LAYOUT",
            "SPIKE_SIZE",
        )
    )
}


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

    ROOT: Place = operational(
        "Folder of the data set (GoPro frames and spike files)", "data/gopro_spike"
    )
    SPIKE_ROOT: Place | None = operational(
        "Root of the spike files, if another; null: beside the frames",
        None,
    )
    TRAIN_SPLIT: str = key("Folder of the training sequences", "train", min_length=1)
    VAL_SPLIT: str = key("Folder of the test sequences", "test", min_length=1)
    VALIDATION: Literal["held_out", "test"] = key(
        "Sequences for validation: held_out, a tenth of the training sequences; test, the "
        "test sequences, which pages then say",
        "held_out",
    )
    TEST_ON_TRAINING_FRAMES: bool = operational(
        "Accept test frames that are training frames, and say so on the page",
        False,
    )
    BLUR_DIR: Literal["blur", "blur_gamma"] = key("Which blurry frames are used", "blur")
    LAYOUT: LayoutName = operational("How folders and files are named; auto: found out", "auto")
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
        "Spike steps before and after the open shutter that voxels also hold",
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
    THRESHOLD_AUGMENT: Fraction = key(
        "Probability that a training clip is simulated with up to three times the spike threshold",
        0.0,
    )
    FAULT_AUGMENT: Fraction = key(
        "Probability that a training clip gets dark counts, flipped bits, hot and dead "
        "pixels, and late spikes",
        0.0,
    )
    RATIO_AUGMENT: Fraction = key(
        "Probability that the clips of a training batch are seen by a camera, or else by a sensor, "
        "of half as many rows and columns",
        0.0,
    )
    NEIGHBOURS: bool = key(
        "Clips also hold the spikes of the frames before and after; a quarter of the training "
        "clips do not, so that single frames can be restored, too; only spike_nafnet takes them",
        False,
    )

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if self.VAL_SPLIT == self.TRAIN_SPLIT and not self.TEST_ON_TRAINING_FRAMES:
            raise ValueError(
                f"DATA.VAL_SPLIT is {self.VAL_SPLIT!r}, the split that is trained on, so its "
                "figures would be of training frames; expected another split. Name that, or set "
                "DATA.TEST_ON_TRAINING_FRAMES to true: the page then says so"
            )
        return self


class TileSettings(Section):
    """Tiles of full-frame inference."""

    SIZE: NonNegative = key("Side of a tile in pixels; 0: whole frames", 256, multiple_of=8)
    OVERLAP: NonNegative = key("Overlap of neighbouring tiles in pixels", 32, multiple_of=2)
    FRAMES: Positive | None = key("Frames of a temporal window; null: DATA.CLIP_LEN", None)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.SIZE and self.OVERLAP * 2 > self.SIZE:
            raise ValueError(
                f"OVERLAP is {self.OVERLAP}; at most half of SIZE ({self.SIZE}) can overlap"
            )
        return self


class TestSettings(Section):
    """Evaluation on the test split."""

    BATCH_SIZE: Positive = operational("Tiles restored at once", 1)
    NUM_WORKERS: NonNegative = operational("Reading workers", 2)
    TILE: TileSettings = key("Tiling", TileSettings())
    METRICS: tuple[MetricName, ...] = key(
        "Reported metrics", ("psnr", "psnr_y", "ssim", "lpips", "tof"), min_length=1
    )
    PROTOCOL: tuple[ProtocolName, ...] = key(
        "Protocols of measurement (docs/metrics.md); the first one's figures stand in tables",
        ("own",),
        min_length=1,
    )
    SPIKES_ALONE: SpikesAloneName | None = key(
        "Classical reconstruction from spikes alone beside the results: tfp (rate in a short "
        "window), tfi (inter-spike interval); null: none",
        "tfp",
    )
    SAVE_VIDEO: bool = key("Write a video per sequence", False)

    @field_validator("PROTOCOL", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        found = [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(found)) if isinstance(found, list | tuple) else found


class WeightsSettings(Section):
    """Pretrained backbones for perceptual terms and LPIPS."""

    DIR: Place = operational("Folder of the backbone weights, verified by sha256", "weights")


class Settings(RunSettings):
    """One preset of the deblurring, complete."""

    old_keys: ClassVar[OldKeys] = OLD_KEYS
    ablation: ClassVar[Ablation | None] = ABLATION
    workflow: ClassVar[type[Section]] = VideoWorkflow
    # What is read from raw files is part of the data set's digest.
    neutral_modules: ClassVar[tuple[str, ...]] = (
        "vrtspike.settings",
        "vrtspike.data.manifests",
        "vrtspike.data.raw",
    )
    root_keys: ClassVar[Mapping[tuple[str, str], frozenset[tuple[str, str]]]] = ROOT_KEYS
    watched: ClassVar[tuple[str, ...] | None] = ("psnr", "ssim")

    TRAIN: VideoTrainSettings = key("Training", VideoTrainSettings())
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
        suffix += f"-context{data.CONTEXT_STEPS}" if data.CONTEXT_STEPS else ""
        suffix += "-test_on_training" if data.TEST_ON_TRAINING_FRAMES else ""
        name = Path(data.ROOT).resolve().name
        return (re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("._") or "data") + suffix

    @property
    def inactive_keys(self) -> frozenset[tuple[str, str]]:
        """Losses that are off."""
        known = type(self.LOSS).model_fields
        return frozenset(("LOSS", name) for name in known if name not in self.LOSS.active)

    @property
    def named_files(self) -> dict[str, str | None]:
        """Files that a preset includes, by the key that names them."""
        return {"MODEL.VRT_CFG": self.MODEL.VRT_CFG}

    @property
    def weight_advice(self) -> dict[str, str]:
        """Names of other weights to start from."""
        start = self.MODEL.PRETRAINED
        return {} if start is None else {"MODEL.PRETRAINED": missing_start_advice(start)}

    @property
    def first_steps(self) -> tuple[str, ...]:
        """Crops of the first phase, and a fixed flow."""
        train, found = self.TRAIN, []
        if train.PROGRESSIVE:
            first = {"CROP_SIZE": train.PROGRESSIVE[0].CROP_SIZE, "EPOCHS": UNLIMITED}
            found.append(f"TRAIN.PROGRESSIVE=[{first}]")
        if train.FREEZE_FLOW_STEPS:
            found.append(f"TRAIN.FREEZE_FLOW_STEPS={UNLIMITED}")
        return tuple(found)

    @property
    def recompute_keys(self) -> tuple[str, ...]:
        """Keys that are on and compute activations again; the first one saves least memory."""
        if self.MODEL.TYPE != "vrt_spike":
            return ()
        keys = ("MODEL.VRT.USE_CHECKPOINT_FFN", "MODEL.VRT.USE_CHECKPOINT_ATTN")
        return tuple(key for key in keys if self.value(key))

    def training_faults(self) -> list[str]:
        """As of the engine, and steps without a loss."""
        terms = [each for each in self.LOSS.active.values() if getattr(each, "LAYERS", True)]
        every = min((getattr(each, "EVERY", 1) for each in terms), default=2)
        fault = "LOSS: found EVERY above 1, or no LAYERS, in all terms, expected one of every step"
        return super().training_faults() + [fault] * (every > 1 and self.TRAIN.DISTILL is None)

    @model_validator(mode="after")
    def _neighbours_have_as_many_bins(self) -> Self:
        wanted, bins = self.MODEL.NAF.NEIGHBOUR_BINS, self.DATA.NUM_VOXEL_BINS
        if self.MODEL.TYPE == "spike_nafnet" and wanted > bins:
            raise ValueError(
                f"MODEL.NAF.NEIGHBOUR_BINS is {wanted}; expected at most DATA.NUM_VOXEL_BINS "
                f"({bins}): lower it, or raise that"
            )
        return self

    @model_validator(mode="after")
    def _model_takes_neighbours(self) -> Self:
        if not self.DATA.NEIGHBOURS:
            return self
        if self.MODEL.TYPE != "spike_nafnet":
            raise ValueError(
                f"DATA.NEIGHBOURS is true and MODEL.TYPE is {self.MODEL.TYPE}; expected "
                "spike_nafnet, which alone looks at spikes beside a clip: set DATA.NEIGHBOURS to "
                "false and raise DATA.CLIP_LEN"
            )
        if self.MODEL.SPIKE_ORDER == "shuffled":
            raise ValueError(
                "DATA.NEIGHBOURS is true and MODEL.SPIKE_ORDER is shuffled; the control sees no "
                "neighbours, and takes the spikes of other frames of a clip: set DATA.NEIGHBOURS "
                f"to false and DATA.CLIP_LEN to {SHUFFLED_CLIP_LEN}, with fewer clips a step "
                "(TRAIN.BATCH_SIZE)"
            )
        return self

    @model_validator(mode="after")
    def _enough_frames_to_shuffle(self) -> Self:
        shuffled = self.MODEL.USE_SPIKE and self.MODEL.SPIKE_ORDER == "shuffled"
        for name, found, least in (
            ("DATA.CLIP_LEN", self.DATA.CLIP_LEN, SHUFFLED_CLIP_LEN),
            ("TEST.TILE.FRAMES", self.TEST.TILE.FRAMES or 2, 2),
        ):
            if shuffled and found < least:
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


def load_video_preset(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """:func:`vrtspike.config.loading.load_preset` of a preset of the deblurring.

    Raises:
        ConfigError: likewise, or if it is one of another problem.
    """
    return deblurring_settings(load_preset(path, overrides), Path(path).stem)
