"""Keys of ``config/config.yaml`` for videos: generated data, and the sizes of jobs."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from vrtspike.config.fields import (
    NonNegative,
    NonNegativeFloat,
    NormalizedPath,
    OutputPath,
    Positive,
    PositiveFloat,
    Section,
    UnitFraction,
    key,
    operational,
)


class DemoSettings(Section):
    """The generated data set."""

    ROOT: OutputPath = operational("Folder of the generated demo data", "data/demo")
    SEED: NonNegative = key("Seed of the simulated camera", 0)


class GeneralSettings(Section):
    """Training data of the bundled weights."""

    ROOT: OutputPath = operational("Folder of the generated training data", "data/general")
    SEED: NonNegative = key("Seed of the simulated cameras, colours and contrasts", 0)


class SimulatedSequence(Section):
    """A folder of high-frame-rate frames that is turned into blurry frames and spikes."""

    FRAMES: NormalizedPath = key("Folder of PNG frames in order")
    SPLIT: str = key("Split the sequence belongs to", min_length=1)
    SEQUENCE: str = key("Name of the sequence", min_length=1)
    FRAMES_PER_EXPOSURE: Positive = key("Frames averaged into one blurry frame", 11)


class SensorSettings(Section):
    """A simulated spike camera that looks at a video; the defaults are those of Spk-GoPro."""

    STEPS_PER_FRAME: Positive = key("Spike steps per source frame", 8)
    THETA: PositiveFloat = key("Firing threshold in units of full intensity", 2.0)
    THETA_SPREAD: NonNegativeFloat = key(
        "Standard deviation of the threshold between pixels, as a share of it", 0.0
    )
    NOISE: NonNegativeFloat = key("Noise of a step, as a share of full scale", 0.0)
    DARK_COUNTS: UnitFraction = key("Probability of a spike without light, per pixel and step", 0.0)
    HOT_PIXELS: UnitFraction = key("Share of the pixels that always fire", 0.0)
    DEAD_PIXELS: UnitFraction = key("Share of the pixels that never fire", 0.0)
    JITTER: UnitFraction = key("Probability that a spike is read out a step late", 0.0)
    LIGHT_GAMMA: PositiveFloat | None = key(
        "Gamma of the linear light that is integrated; null: coded values, as in Spk-GoPro",
        None,
    )
    START_PHASE: UnitFraction | None = key(
        "Charge at the start, as a share of the threshold; null: random for each pixel",
        None,
    )
    GAMMA: PositiveFloat | None = key("Average in linear light of this gamma; null: as coded", None)
    SEED: NonNegative = key("Seed of the initial voltages", 0)
    INTERPOLATION: Literal["linear", "flow"] = key(
        "Between frames: a mixture of both, or moved by optical flow", "linear"
    )

    @model_validator(mode="after")
    def _pixels_suffice(self) -> Self:
        if self.HOT_PIXELS + self.DEAD_PIXELS > 1:
            raise ValueError("HOT_PIXELS and DEAD_PIXELS are more than all pixels together")
        return self


class SimulateSettings(SensorSettings):
    """Frames without a spike camera, sent through the simulators: the sensor and its videos."""

    ROOT: OutputPath = operational("Data set that is written", "data/simulated")
    SEQUENCES: tuple[SimulatedSequence, ...] = key("Sequences to simulate", ())


class CalibrateSettings(Section):
    """Recordings of one's own cameras, resampled onto the sensor's grid (docs/own-camera.md)."""

    ROOT: OutputPath = operational("Data set that is written", "data/calibrated")
    DATA: NormalizedPath | None = key("Recordings to resample; null: nothing is calibrated", None)
    STATIC: NormalizedPath | None = key("Recording of a scene in which nothing moves", None)
    MOVING: NormalizedPath | None = key("Recording of a scene that moves", None)
    SENSOR: tuple[Positive, Positive] | None = key(
        "Rows and columns of the sensor as in its files; null: from a config.yaml next to them",
        None,
    )
    MAX_STEPS: Positive = key("Largest time offset, in steps", 200)


class ShardSettings(Section):
    """Limits of the sequences of a job of ``ingest`` and ``voxelize``."""

    SEQUENCES: Positive = operational("Upper bound of sequences per job (an average)", 128)
    GB: PositiveFloat = operational(
        "Upper bound of gigabytes of raw files per job (an average)", 32.0
    )


class DeblurringWorkflowSettings(Section):
    """The keys and sections."""

    DATA: dict[str, Any] = operational(
        "DATA keys of every deblurring preset that does not set them itself", {}
    )
    SHARDS: ShardSettings = key("Jobs that work through many sequences", ShardSettings())
    DEMO: DemoSettings = key("The generated data set", DemoSettings())
    GENERAL: GeneralSettings = key("Training data of the bundled weights", GeneralSettings())
    SIMULATE: SimulateSettings = key("Simulated data", SimulateSettings())
    CALIBRATE: CalibrateSettings = key("Cameras of one's own", CalibrateSettings())
