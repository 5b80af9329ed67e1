"""Keys of the TEST section: tiles, metrics and protocols of an evaluation."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from vrtspike.config.fields import NonNegative, Positive, Section, key, operational
from vrtspike.config.tasks import DEFAULT_PROTOCOL
from vrtspike.deblurring_settings.names import MetricName

SpikesAloneName = Literal["tfp", "tfi"]
"""Classical reconstructions from spikes (:mod:`vrtspike.data.spike_reconstruction`)."""

ProtocolName = Literal["own", "vrt", "basicsr", "spkdeblurnet", "ssdm"]
"""Protocols of measurement (:mod:`vrtspike.evaluation.protocols`)."""


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


class EvaluationSettings(Section):
    """Evaluation on the test split."""

    BATCH_SIZE: Positive = operational("Tiles restored at once", 1)
    NUM_WORKERS: NonNegative = operational("Reading workers", 2)
    TILE: TileSettings = key("Tiling", TileSettings())
    METRICS: tuple[MetricName, ...] = key(
        "Reported metrics", ("psnr", "psnr_y", "ssim", "lpips", "tof"), min_length=1
    )
    PROTOCOL: tuple[ProtocolName, ...] = key(
        "Protocols of measurement (docs/metrics.md); tables show metrics of the first one",
        (DEFAULT_PROTOCOL,),
        min_length=1,
    )
    SPIKES_ALONE: SpikesAloneName | None = key(
        "Classical reconstruction from spikes alone, for comparison: tfp (rate in a short "
        "window), tfi (inter-spike interval); null: none",
        "tfp",
    )
    SAVE_VIDEO: bool = key("Write a video per sequence", False)

    @field_validator("PROTOCOL", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list | tuple):
            return tuple(dict.fromkeys(names))
        return names
