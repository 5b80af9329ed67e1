"""Options of acceptance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field

from vrtspike.deblurring_settings.stores import StoreOptions


class AcceptOptions(BaseModel, frozen=True, extra="forbid"):
    """Requirements of presets on a data set, and the treatment of sequences with faults.

    Attributes:
        stores: options of the stores, whose bins exposures must be able to fill; None takes any
            exposure.
        clip_length: frames of a clip (DATA.CLIP_LEN): shorter sequences have a fault.
        crop_sizes: side of a crop in pixels by split (DATA.CROP_SIZE): sequences with smaller
            frames have a fault.
        splits: split of training and split of testing.
        test_on_training_frames: accept test sequences that hold frames of training sequences.
        on_error: ``stop`` with a list of all faults, or ``exclude`` the sequences that have any.
    """

    stores: StoreOptions | None = None
    clip_length: int = Field(default=1, ge=1)
    crop_sizes: Mapping[str, int] = Field(default_factory=dict)
    splits: tuple[str, str] = ("train", "test")
    test_on_training_frames: bool = False
    on_error: Literal["stop", "exclude"] = "stop"
