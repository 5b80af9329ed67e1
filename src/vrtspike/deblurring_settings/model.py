"""Keys of the MODEL section: VRT with the spike branch, and the light model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from vrtspike.config.fields import (
    NonNegative,
    NormalizedPath,
    Positive,
    PositiveFloat,
    Section,
    ShareBelowOne,
    UnitFraction,
    key,
    operational,
    weights,
)
from vrtspike.config.yaml_documents import Document, KeyPath, dotted_key, read_yaml
from vrtspike.deblurring_settings.names import ModelName
from vrtspike.system.errors import ConfigError

STAGES = 7
"""Stages before the reconstruction groups of stage 8."""
RECONSTRUCTION_GROUPS = 4
PUBLISHED_DEPTHS = (8,) * STAGES + (4,) * RECONSTRUCTION_GROUPS
PUBLISHED_WIDTHS = (96,) * STAGES + (120,) * RECONSTRUCTION_GROUPS

SKIPS = {6: 3, 7: 2, 8: 1}
"""Earlier stage of the same scale whose output is added to the input of a stage, from 1."""

WindowSize = Positive | tuple[Positive, Positive, Positive]


class NetworkSettings(Section):
    """Keys of one kind of network, and what training and restoration have to know about it.

    The defaults are those of a network without keys of its own.

    Attributes:
        type_name: value of MODEL.TYPE; empty for a network without keys.
        section_keys: names of the keys of MODEL that describe this network alone.
        depth_key: the key with the number of blocks; None if there is none.
        recompute_keys: keys that compute activations again; the first one saves least memory.
        keys_without_shape: keys that change the network but not the shapes of its weights.
        takes_neighbors: it takes the spikes of the frames before and after a clip. The control
            with shuffled spikes then gives it single frames.
    """

    type_name: ClassVar[str] = ""
    section_keys: ClassVar[tuple[str, ...]] = ()
    depth_key: ClassVar[str | None] = None
    recompute_keys: ClassVar[tuple[str, ...]] = ()
    keys_without_shape: ClassVar[tuple[str, ...]] = ()
    takes_neighbors: ClassVar[bool] = False

    @property
    def bytes_per_pixel(self) -> int:
        """Memory for the tensors of a tile, without weights, per pixel of each frame, in float32.

        Measured: 9,440 with 96 channels of VRT and 5,216 with 32, 1,383 with 32 channels of NAFNet.
        By default more than any of these.
        """
        return 20_000

    @property
    def weights(self) -> dict[str, str]:
        """Files of weights for a part of the network, by key."""
        return {}


class VRTSettings(NetworkSettings):
    """Arguments of the VRT backbone (published names in upper case)."""

    type_name: ClassVar[str] = "vrt_spike"
    section_keys: ClassVar[tuple[str, ...]] = (
        "VRT_CFG",
        "VRT_DEPTHS",
        "WINDOW_SIZE",
        "VRT",
        "SPIKE_TSA",
        "FUSE",
    )
    depth_key: ClassVar[str | None] = "MODEL.VRT_DEPTHS"
    recompute_keys: ClassVar[tuple[str, ...]] = (
        "MODEL.VRT.USE_CHECKPOINT_FFN",
        "MODEL.VRT.USE_CHECKPOINT_ATTN",
    )
    keys_without_shape: ClassVar[tuple[str, ...]] = ("MODEL.SPIKE_TSA.HEADS", "MODEL.FUSE.HEADS")

    USE_CHECKPOINT_ATTN: bool = operational("Recompute window attention in the backward pass", True)
    USE_CHECKPOINT_FFN: bool = operational(
        "Recompute the feed-forward layers in the backward pass", True
    )
    PRETRAINED: NormalizedPath | None = weights(
        "Checkpoint of published VRT weights to start from (safetensors or PyTorch)", None
    )
    SPYNET: NormalizedPath | None = weights("Checkpoint with SpyNet's weights alone", None)
    EMBED_DIMS: tuple[Positive, ...] = key(
        "Channels of stages 1-7 and of stage 8's groups; stages 1-4 also of the spike encoder",
        PUBLISHED_WIDTHS,
    )
    NUM_HEADS: Positive = key("Heads of every window attention", 6)
    MLP_RATIO: PositiveFloat = key("Hidden width of the feed-forward layers over channels", 2.0)
    MUL_ATTN_RATIO: UnitFraction = key("Share of a stage's blocks with mutual attention", 0.75)
    DROP_PATH_RATE: ShareBelowOne = key("Stochastic depth of the last block (rises from 0)", 0.2)
    PA_FRAMES: Literal[0, 2] = key(
        "Neighbours aligned by flow; 0: a smaller network without flow and alignment", 2
    )
    DEFORMABLE_GROUPS: Positive = key("Offset groups of the deformable alignment", 16)
    INDEP_RECONSTS: tuple[Annotated[int, Field(ge=STAGES)], ...] = key(
        "Groups of stage 8 (numbered as in VRT_DEPTHS, from 7) whose windows hold a single frame",
        (9, 10),
    )
    ATTENTION: Literal["auto", "sdpa", "recompute"] = operational(
        "Implementation of window attention; sdpa: PyTorch's scaled_dot_product_attention; "
        "recompute: scores recomputed for the gradient; auto: the faster one",
        "auto",
    )

    @property
    def bytes_per_pixel(self) -> int:
        """As measured, see :class:`NetworkSettings`."""
        return 3300 + 70 * max(self.EMBED_DIMS)

    @property
    def weights(self) -> dict[str, str]:
        """Published weights of VRT, and those of its flow."""
        files = {"MODEL.VRT.PRETRAINED": self.PRETRAINED, "MODEL.VRT.SPYNET": self.SPYNET}
        return {key: path for key, path in files.items() if path is not None}


class TemporalAttentionSettings(Section):
    """Attention along time at each pixel; the chunk keys bound memory and change no result."""

    HEADS: Positive = key("Attention heads", 4)
    ADAPTIVE_CHUNK: bool = operational(
        "Process as many pixels at once as MAX_BATCH_TOKENS allows; false: CHUNK_SIZE decides",
        True,
    )
    MAX_BATCH_TOKENS: Positive = operational("Tokens (pixels x frames) processed at once", 49152)
    CHUNK_SIZE: Positive = operational("A chunk has the pixels of a square of this side", 64)


class FuseSettings(TemporalAttentionSettings):
    """Fusion of spike features into VRT's stages 1-4."""

    INIT: Literal["identity", "random"] = key(
        "identity: output projections start at zero, the network as VRT itself", "identity"
    )


class NAFSettings(NetworkSettings):
    """Size of the light model, SpikeNAFNet."""

    type_name: ClassVar[str] = "spike_nafnet"
    section_keys: ClassVar[tuple[str, ...]] = ("NAF",)
    takes_neighbors: ClassVar[bool] = True

    WIDTH: Positive = key("Channels at full size; they double at each scale", 32)
    ENCODER_BLOCKS: tuple[Positive, ...] = key(
        "Blocks of each scale of the encoder, full size first", (1, 1, 1, 4), min_length=1
    )
    MIDDLE_BLOCKS: Positive = key("Blocks at the coarsest scale", 4)
    DECODER_BLOCKS: tuple[Positive, ...] = key(
        "Blocks of each scale of the decoder, full size first", (1, 1, 1, 1)
    )
    SPIKE_WIDTH: Positive = key("Channels of the spike features", 48)
    NEIGHBOUR_BINS: NonNegative = key(
        "Voxel bins of each neighbouring frame that the network reads, too: the last ones of the "
        "previous frame, the first ones of the next",
        8,
    )
    SPIKE_BLOCKS: Positive = key("Blocks of the spike features at the sensor's resolution", 1)
    LEARNED_ENLARGEMENT: bool = key(
        "Spike features at the frames' full size: enlarged by a learned layer in addition to the "
        "bilinear enlargement",
        False,
    )
    POOLING_CELL: NonNegative = key(
        "Channel attention pools over windows of 3 x 3 cells of this side, in pixels of the "
        "frames; half of DATA.CROP_SIZE gives windows about as large as in training; 0: the whole "
        "frame",
        0,
    )

    @model_validator(mode="after")
    def _check_block_counts(self) -> Self:
        down = len(self.ENCODER_BLOCKS)
        up = len(self.DECODER_BLOCKS)
        if down != up:
            raise ValueError(
                f"ENCODER_BLOCKS has {down} scales, DECODER_BLOCKS {up}; give both as many numbers"
            )
        return self

    @property
    def bytes_per_pixel(self) -> int:
        """As measured, see :class:`NetworkSettings`."""
        return 50 * self.WIDTH


class ModelSettings(Section):
    """The network."""

    TYPE: ModelName = key(
        "vrt_spike: VRT with a spike branch; spike_nafnet: a light U-Net. Only spike_nafnet reads "
        "NAF; only vrt_spike reads VRT, VRT_CFG, VRT_DEPTHS, WINDOW_SIZE, SPIKE_TSA and FUSE",
        "vrt_spike",
    )
    PRETRAINED: NormalizedPath | None = weights(
        "Trained model to start from: a result folder (results/train/<preset>), a packed run, "
        "owner/name of the Hugging Face hub, or general, the bundled weights; "
        "MODEL and DATA.NUM_VOXEL_BINS, CONTEXT_STEPS must be that model's",
        None,
    )
    USE_SPIKE: bool = key("Use spikes; false: the same network without spikes, for ablations", True)
    SPIKE_ORDER: Literal["recorded", "shuffled"] = key(
        "Spikes of a frame: its own, or, as a control, those of another frame of the clip, with "
        "DATA.NEIGHBOURS those of the frame before or after",
        "recorded",
    )
    VRT_CFG: NormalizedPath | None = key(
        "YAML file with VRT's own arguments (lower case); keys given here override it", None
    )
    VRT_DEPTHS: tuple[Positive, ...] = key(
        "Blocks of stages 1-7 and of stage 8's groups; a list of 8 repeats its last entry",
        PUBLISHED_DEPTHS,
    )
    WINDOW_SIZE: Annotated[WindowSize, Field(union_mode="left_to_right")] = key(
        "Attention window: side length in pixels, or (frames, rows, columns)", 8
    )
    NAF: NAFSettings = key("The light model", NAFSettings())
    VRT: VRTSettings = key("The VRT backbone", VRTSettings())
    SPIKE_TSA: TemporalAttentionSettings = key(
        "Temporal self-attention over spike features", TemporalAttentionSettings()
    )
    FUSE: FuseSettings = key("Fusion of the two branches", FuseSettings())

    @field_validator("VRT_DEPTHS")
    @classmethod
    def _expand_depths(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        if len(depths) == STAGES + 1:
            return depths[:STAGES] + depths[STAGES:] * RECONSTRUCTION_GROUPS
        if len(depths) <= STAGES:
            raise ValueError(
                f"found {len(depths)} depths, expected {STAGES} for the stages and then one for "
                f"all groups of stage 8 ({STAGES + 1}) or one for each "
                f"({STAGES + RECONSTRUCTION_GROUPS})"
            )
        return depths

    @property
    def network(self) -> NetworkSettings:
        """The section of the network that TYPE names."""
        for network in self._networks:
            if network.type_name == self.TYPE:
                return network
        return NetworkSettings()

    @property
    def keys_of_other_networks(self) -> frozenset[str]:
        """Names of keys of this section without effect: they describe other networks."""
        keys = {name for network in self._networks for name in network.section_keys}
        return frozenset(keys.difference(self.network.section_keys))

    @property
    def _networks(self) -> list[NetworkSettings]:
        """The sections of all networks."""
        return [value for _, value in self if isinstance(value, NetworkSettings)]

    @property
    def shuffles_spikes(self) -> bool:
        """True if each frame gets the spikes of another one, as a control."""
        return self.USE_SPIKE and self.SPIKE_ORDER == "shuffled"

    @property
    def window(self) -> tuple[int, int, int]:
        """The window of self-attention as (frames, rows, columns)."""
        if isinstance(self.WINDOW_SIZE, int):
            return (6, self.WINDOW_SIZE, self.WINDOW_SIZE)
        return self.WINDOW_SIZE

    @model_validator(mode="after")
    def _one_source_of_weights(self) -> Self:
        """Reject two sources of weights, and an exported model, which cannot be trained."""
        if self.PRETRAINED is None:
            return self
        if self.PRETRAINED.endswith(".onnx"):
            raise ValueError(
                f"PRETRAINED is {self.PRETRAINED}; an ONNX file cannot be trained, name the run "
                "that it was exported from"
            )
        if self.network.weights:
            raise ValueError(
                "PRETRAINED gives all weights, and VRT.PRETRAINED or VRT.SPYNET gives some of "
                "them; set either PRETRAINED or those two to null"
            )
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Reject widths, heads and depths that do not go together."""
        vrt = self.VRT
        widths = vrt.EMBED_DIMS
        if len(widths) != len(self.VRT_DEPTHS):
            raise ValueError(
                f"VRT.EMBED_DIMS has {len(widths)} entries and VRT_DEPTHS has "
                f"{len(self.VRT_DEPTHS)}; give one for each"
            )
        faults = self._width_faults()
        if vrt.MLP_RATIO * min(widths) < 1:
            faults.append(
                f"VRT.MLP_RATIO is {vrt.MLP_RATIO}; expected at least {1 / min(widths):.3g}, for a "
                "hidden layer that is not empty"
            )
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _width_faults(self) -> list[str]:
        """Return widths that heads and groups do not divide, and unequal widths of summands."""
        vrt = self.VRT
        widths = vrt.EMBED_DIMS
        divisors = [
            ("VRT.NUM_HEADS", vrt.NUM_HEADS, len(widths)),
            # The spike encoder's scales are as wide as these stages.
            ("SPIKE_TSA.HEADS", self.SPIKE_TSA.HEADS, 4),
            ("FUSE.HEADS", self.FUSE.HEADS, 4),
            ("VRT.DEFORMABLE_GROUPS", vrt.DEFORMABLE_GROUPS if vrt.PA_FRAMES else 1, STAGES),
            ("what stages 1-7 need", 4, STAGES),
        ]
        faults = []
        for name, divisor, stages in divisors:
            misfits = [stage for stage in range(stages) if widths[stage] % divisor]
            if misfits:
                # The first misfit is named; a wrong divisor fits none of the widths.
                width = f"VRT.EMBED_DIMS[{misfits[0]}] is {widths[misfits[0]]}"
                faults.append(f"{width}, no multiple of {name}, {divisor}")
        # The input of a stage is the output of the one before; widths are counted from 0.
        equal_widths = [(stage - 2, earlier - 1) for stage, earlier in SKIPS.items()]
        for group in range(STAGES + 1, len(widths)):
            equal_widths.append((group, STAGES))
        for late, early in equal_widths:
            if widths[late] != widths[early]:
                faults.append(
                    f"VRT.EMBED_DIMS[{late}] is {widths[late]} and VRT.EMBED_DIMS[{early}] is "
                    f"{widths[early]}; they must be equal: outputs of stages are added, and the "
                    "groups of stage 8 have one width"
                )
        return faults


_VRT_ARGUMENTS: dict[str, KeyPath] = {
    "depths": ("MODEL", "VRT_DEPTHS"),
    "window_size": ("MODEL", "WINDOW_SIZE"),
    **{
        name.lower(): ("MODEL", "VRT", name)
        for name in VRTSettings.model_fields
        if name not in ("PRETRAINED", "SPYNET", "ATTENTION")
    },
}
"""VRT's own arguments and the keys that they set."""


def read_vrt_arguments(file: Path) -> Document:
    """Read the file named by MODEL.VRT_CFG, as keys of a preset.

    Raises:
        ConfigError: if the file cannot be read, or has an unknown argument.
    """
    arguments = read_yaml(file)
    result = Document({}, {})
    for argument, value in arguments.values.items():
        location = arguments.locations[argument]
        key = _VRT_ARGUMENTS.get(dotted_key(argument))
        if key is None:
            names = ", ".join(sorted(_VRT_ARGUMENTS))
            raise ConfigError(
                f"{location}: unknown argument {dotted_key(argument)}; known: {names}"
            )
        result.values[key] = value
        result.locations[key] = location
    return result
