"""What ``config/config.yaml`` says of videos: how they are generated, and jobs that share them."""

from __future__ import annotations

from typing import Literal

from vrtspike.config.fields import (
    NonNegative,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)


class DemoSettings(Section):
    """The generated data set."""

    ROOT: str = operational("Where it is generated", "data/demo")
    SEED: NonNegative = key("Seed of the simulated camera", 0)


class SimulatedSequence(Section):
    """One folder of high-frame-rate frames turned into blurry frames and spikes."""

    FRAMES: str = key("Folder of PNG frames in order")
    SPLIT: str = key("Split the sequence belongs to", min_length=1)
    SEQUENCE: str = key("Name of the sequence", min_length=1)
    FRAMES_PER_EXPOSURE: Positive = key("Frames averaged into one blurry frame", 11)


class SimulateSettings(Section):
    """Frames without a spike camera, sent through the simulators."""

    ROOT: str = operational("Data set that is written", "data/simulated")
    SEQUENCES: tuple[SimulatedSequence, ...] = key("What to simulate", ())
    STEPS_PER_FRAME: Positive = key("Spike steps per source frame", 8)
    THETA: PositiveFloat = key("Firing threshold in units of full intensity", 2.0)
    GAMMA: PositiveFloat | None = key("Average in linear light of this gamma; null: as coded", None)
    SEED: NonNegative = key("Seed of the initial voltages", 0)
    INTERPOLATION: Literal["linear", "flow"] = key(
        "What the sensor sees between frames: a mixture of them, or moved by optical flow", "linear"
    )


class ShareSettings(Section):
    """How many sequences a job of ``ingest`` and ``voxelize`` takes."""

    SEQUENCES: Positive = operational("Most sequences of a job, on the average", 128)
    GB: PositiveFloat = operational("Most gigabytes of their raw files, on the average", 32.0)


class VideoWorkflow(Section):
    """The sections."""

    SHARES: ShareSettings = key("Jobs that work through many sequences", ShareSettings())
    DEMO: DemoSettings = key("The generated data set", DemoSettings())
    SIMULATE: SimulateSettings = key("Simulated data", SimulateSettings())
