"""Requirements of a preset on its data set.

This module stays within the standard library, because the workflow uses it while it plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.system.errors import ConfigError

if TYPE_CHECKING:
    from vrtspike.deblurring_settings import DeblurringSettings
    from vrtspike.deblurring_settings.data import DataSettings


def largest_crop(settings: DeblurringSettings) -> int:
    """Return the side of a preset's largest training crops in pixels, over all phases."""
    phases = [phase.CROP_SIZE for phase in settings.TRAIN.PROGRESSIVE]
    return max(phases, default=settings.DATA.CROP_SIZE)


def crop_sizes(presets: Iterable[DeblurringSettings]) -> dict[str, int]:
    """Return the smallest frame side that suffices for one of the presets on a data set, by split.

    Training needs its largest crops, validation DATA.CROP_SIZE. Evaluation takes whole frames of
    any size; weights that are not trained are only evaluated.
    """
    sizes: dict[str, int] = {}
    for settings in presets:
        data = settings.DATA
        required = {data.TEST_SPLIT: 1, data.TRAIN_SPLIT: 1}
        if settings.unchanged_weights is None:
            validated = data.TEST_SPLIT if data.VALIDATION == "test" else data.TRAIN_SPLIT
            required[validated] = data.CROP_SIZE
            required[data.TRAIN_SPLIT] = max(largest_crop(settings), required[data.TRAIN_SPLIT])
        for split, size in required.items():
            sizes[split] = min(size, sizes.get(split, size))
    return sizes


def require_spikes(
    dataset_name: str,
    has_spikes: bool,
    settings: DeblurringSettings,
    other_roots: Sequence[Path] = (),
) -> None:
    """Reject a model with spikes for a data set without.

    Args:
        dataset_name: name for the message.
        has_spikes: true if its sequences have spikes.
        settings: settings of the preset.
        other_roots: other folders that hold spikes of its sequences.

    Raises:
        ConfigError: if MODEL.USE_SPIKE is true and there are no spikes.
    """
    if settings.MODEL.USE_SPIKE and not has_spikes:
        if other_roots:
            raise ConfigError(
                f"{dataset_name}: no spike files beside the frames, and MODEL.USE_SPIKE is true; "
                f"spikes of its sequences lie in {' and '.join(map(str, other_roots))}: set "
                "DATA.SPIKE_ROOT to it"
            )
        raise ConfigError(
            f"{dataset_name}: no sequence of this data set has spike files, but MODEL.USE_SPIKE is "
            "true. Set MODEL.USE_SPIKE to false (the ablation without spikes), put spike files "
            "beside the frames (docs/data-formats.md says where) and run the workflow again, or "
            "simulate them: from 240 fps frames (config/examples/high_frame_rate.yaml), or from "
            "blurry and sharp videos (scripts/simulate.py --pairs, DATA.SPIKE_ROOT)"
        )


def require_sequences_to_hold_out(
    dataset_name: str, sequences: int, settings: DataSettings
) -> None:
    """Reject a single training sequence if some have to be held out for validation.

    Args:
        dataset_name: name for the message.
        sequences: number of training sequences.
        settings: DATA of the preset.

    Raises:
        ConfigError: naming DATA.VALIDATION.
    """
    if settings.VALIDATION == "held_out" and sequences == 1:
        raise ConfigError(
            f"{dataset_name}: DATA.VALIDATION is held_out, and a single training sequence cannot "
            "be divided; add sequences, or set DATA.VALIDATION to test: pages then say that "
            "the run was chosen on the test split"
        )
