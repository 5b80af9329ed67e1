"""The data source of a preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DataKind: TypeAlias = Literal["raw", "demo", "general", "simulated", "calibrated"]
"""Origin of a data set: ``raw`` is a folder that users fill, the others are generated."""


@dataclass(frozen=True)
class DataSource:
    """A data source as a preset uses it; equal sources share every stage up to training.

    All but ``name``, ``kind`` and ``sources`` are keys of DATA.

    Attributes:
        sources: files that are written when data are generated; of simulated data one for each
            sequence.
    """

    name: str
    root: str
    blur_dir: str
    train_split: str
    test_split: str
    spike_size: tuple[int, int] | None
    layout: str
    on_error: Literal["stop", "exclude"]
    kind: DataKind
    test_on_training_frames: bool = False
    spike_root: str | None = None
    sources: tuple[str, ...] = ()
