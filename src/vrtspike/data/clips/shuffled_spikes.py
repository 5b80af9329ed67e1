"""Clips of the control with shuffled spikes (MODEL.SPIKE_ORDER)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.neighbors import mirrored_order
from vrtspike.data.clips.samples import BinnedSpikes
from vrtspike.system.errors import DataError, list_faults

if TYPE_CHECKING:
    from vrtspike.data.clips.dataset_manifest import DatasetManifest
    from vrtspike.data.store.metadata import StoreMetadata
    from vrtspike.deblurring_settings.data import DataSettings


class ShuffledSpikesDataset(ClipDataset):
    """Clips that always come with spikes of other frames.

    With DATA.NEIGHBOURS none is left without neighbours, and an absent one is replaced by the one
    on the other side of its frame. Crops and augmentation are those of other clips.

    Raises:
        ConfigError, DataError: as for :class:`~vrtspike.data.clips.dataset.ClipDataset`.
        DataError: with DATA.NEIGHBOURS, if sequences (all named at once) have one frame.
    """

    isolated_share: ClassVar[float] = 0

    def __init__(
        self,
        manifest: DatasetManifest,
        split: str,
        settings: DataSettings,
        **options: Any,  # noqa: ANN401 - as of any clips
    ) -> None:
        super().__init__(manifest, split, settings, **options)
        if settings.NEIGHBOURS:
            _require_other_frames(self.store_metadata)

    def _with_absent_neighbors(self, spikes: BinnedSpikes) -> BinnedSpikes:
        """Return the spikes of T + 2 frames, those of absent ones replaced by others."""
        padded = super()._with_absent_neighbors(spikes)
        before, after = spikes.has_neighbors.tolist()
        order = mirrored_order(len(padded.counts), before=before, after=after)
        return BinnedSpikes(
            padded.counts[order], padded.bin_steps[order], padded.gain, torch.tensor([True, True])
        )


def _require_other_frames(store_metadata: Mapping[str, StoreMetadata]) -> None:
    """Reject sequences of one frame, which have no other frame's spikes."""
    faults = [
        f"{name}: 1 frame" for name, metadata in store_metadata.items() if len(metadata.frames) == 1
    ]
    if faults:
        title = (
            "MODEL.SPIKE_ORDER is shuffled: sequences without another frame whose spikes a frame "
            "could get"
        )
        raise DataError(list_faults(title, faults, "Remove them, or add frames, 2 or more in all."))
