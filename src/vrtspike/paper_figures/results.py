"""The results that figures show: restored clips of models, the PSNR of their frames, their cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image
from vrtspike.paper_figures.recorded_spikes import RecordedSpikes
from vrtspike.system.errors import ConfigError, DataError, did_you_mean

FRAME_COLUMNS = ["sequence", "frame", "psnr_blur", "psnr"]
"""Columns of a table of PSNR by frame: names, PSNR of the blurry and of the restored frame."""

RESERVED_LABELS = ("blurry", "spikes", "sharp", "sequence", "frame", "number")
"""Names that pictures and columns of the figures have beside those of models."""

MAX_PSNR_DIFFERENCE = 0.01
"""Maximum difference in dB of a blurry frame's PSNR between two results of the same frames."""


class RestoredSequence(ABC):
    """A sequence that a model has restored; frames are read by their names.

    Attributes:
        name: name of the sequence.
        frames: names of the frames that can be read, in order.
        is_complete: no frame of the sequence is missing.
        has_recorded_spikes: :meth:`recorded` gives spikes.
    """

    name: str
    frames: Sequence[str]
    is_complete: bool = True
    has_recorded_spikes: bool = False

    @abstractmethod
    def blurry(self, frame: str) -> Image:
        """Return a blurry frame, uint8 (H, W, 3)."""

    @abstractmethod
    def sharp(self, frame: str) -> Image | None:
        """Return the sharp frame; None without."""

    @abstractmethod
    def restored(self, frames: Sequence[str]) -> Iterator[Image]:
        """Yield restored frames in the order of their names."""

    def recorded(self, frame: str) -> RecordedSpikes:
        """Return the spikes of a frame's exposure."""
        raise NotImplementedError(f"sequence {self.name} has no recorded spikes")

    def spikes(self, frame: str) -> NDArray[np.uint8] | None:
        """Return the picture of the instant, uint8 (h, w) of the sensor's size; None without."""
        if not self.has_recorded_spikes:
            return None
        return self.recorded(frame).picture(self.blurry(frame))


@dataclass(frozen=True)
class Cost:
    """Quality and cost of a model.

    Attributes:
        psnr: mean in dB.
        parameters: their number; None if unknown.
        seconds: for each frame, under the protocol; None if unknown.
        device: device that computed, ``cpu`` or ``cuda``.
        dataset: name of the test data.
        protocol: protocol that PSNR was measured under.
    """

    psnr: float
    parameters: float | None
    seconds: float | None
    device: str
    dataset: str
    protocol: str


@dataclass(frozen=True)
class ModelResult:
    """Restored frames of one model.

    Attributes:
        label: name in figures.
        source: folder, for messages.
        clips: restored sequences by name.
        frame_psnr: a row for each measured frame, :data:`FRAME_COLUMNS`; may be empty.
        cost: None if it was not measured.
        notes: sentences about what is missing.
    """

    label: str
    source: str
    clips: Mapping[str, RestoredSequence]
    frame_psnr: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=FRAME_COLUMNS))
    cost: Cost | None = None
    notes: Sequence[str] = ()


class ComparedResults:
    """Results of one or several models on the same frames.

    Args:
        models: at least one, with different labels.
    """

    def __init__(self, models: Sequence[ModelResult]) -> None:
        self.models = models
        self._restored: dict[tuple[str, str], list[Image]] = {}

    @property
    def sequences(self) -> list[str]:
        """The sequences of all models, in the order of the first."""
        first, *others = self.models
        return [name for name in first.clips if all(name in other.clips for other in others)]

    def clips(self, sequence: str) -> list[RestoredSequence]:
        """Return the clip of each model."""
        return [model.clips[sequence] for model in self.models]

    def frames(self, sequence: str) -> list[str]:
        """Return the frames of a sequence that all models have, in order."""
        first, *others = self.clips(sequence)
        return [name for name in first.frames if all(name in other.frames for other in others)]

    def is_complete(self, sequence: str) -> bool:
        """Return whether all models have all frames of a sequence."""
        return all(clip.is_complete for clip in self.clips(sequence))

    def require_sequence(self, sequence: str, option: str) -> None:
        """Reject a sequence that not all models have.

        Args:
            sequence: name of the sequence.
            option: text of the option that names it, for the message.

        Raises:
            ConfigError: with the sequences that all have.
        """
        names = self.sequences
        if sequence not in names:
            raise ConfigError(
                f"{option}: no sequence {sequence!r}{did_you_mean(sequence, names)}; sequences of "
                f"all results: {', '.join(names) or 'none'}"
            )

    def require_frame(self, sequence: str, frame: str, option: str) -> None:
        """Reject a frame that not all models have; arguments as for :meth:`require_sequence`.

        Raises:
            ConfigError: with the first and the last frame of the sequence.
        """
        self.require_sequence(sequence, option)
        names = self.frames(sequence)
        if frame in names:
            return
        kept = "" if self.is_complete(sequence) else " kept as examples"
        valid = "none"
        if names:
            valid = f"{len(names)}, {names[0]} to {names[-1]}"
        raise ConfigError(
            f"{option}: no frame {frame!r} in sequence {sequence}{did_you_mean(frame, names)}; "
            f"frames of all results{kept}: {valid}"
        )

    def blurry(self, sequence: str, frame: str) -> Image:
        """Return the blurry frame of all models.

        Raises:
            DataError: if two models have different blurry frames of this name.
        """
        first, *others = self.models
        image = first.clips[sequence].blurry(frame)
        for other in others:
            if not np.array_equal(image, other.clips[sequence].blurry(frame)):
                raise DataError(
                    f"{first.source} and {other.source}: different blurry frames "
                    f"{sequence}/{frame}; give results of the same frames"
                )
        return image

    def sharp(self, sequence: str, frame: str) -> Image | None:
        """Return the sharp frame of the first model that has one; None without any."""
        for clip in self.clips(sequence):
            image = clip.sharp(frame)
            if image is not None:
                return image
        return None

    def restored(self, sequence: str, frame: str) -> list[Image]:
        """Return the restored frame of each model; each is restored once."""
        key = (sequence, frame)
        if key not in self._restored:
            self._restored[key] = [next(clip.restored([frame])) for clip in self.clips(sequence)]
        return self._restored[key]

    def frame_psnr(self) -> pd.DataFrame:
        """Join the PSNR of the frames of all models, a row for each model and frame.

        Returns:
            ``sequence``, ``frame``, ``number`` (from 1), ``model``, ``psnr_blur``, ``psnr`` and
            ``gain`` in dB; frames that not all measured models have are left out, but counted.

        Raises:
            DataError: if the blurry frames of two models have different PSNR.
        """
        tables = []
        for model in self.models:
            if len(model.frame_psnr):
                tables.append(model.frame_psnr[FRAME_COLUMNS].assign(model=model.label))
        if not tables:
            return pd.DataFrame(columns=[*FRAME_COLUMNS, "number", "model", "gain"])
        table = pd.concat(tables, ignore_index=True)
        table["number"] = table.groupby(["model", "sequence"], sort=False).cumcount() + 1
        keys = ["sequence", "frame"]
        groups = table.groupby(keys, sort=False)
        # A model that lacks earlier frames counts fewer.
        table["number"] = groups["number"].transform("max")
        table = table[groups["model"].transform("size") == len(tables)]
        spread = table.groupby(keys, sort=False)["psnr_blur"].agg(np.ptp).fillna(0.0)
        if len(spread) and spread.max() > MAX_PSNR_DIFFERENCE:
            sequence, frame = spread.index[int(spread.to_numpy().argmax())]
            raise DataError(
                f"{', '.join(model.source for model in self.models)}: the blurry frame "
                f"{sequence}/{frame} differs by {spread.max():.2f} dB between results; give "
                "results of the same frames, or another --protocol"
            )
        return table.assign(gain=table["psnr"] - table["psnr_blur"])
