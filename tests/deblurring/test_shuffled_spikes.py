"""The control of single frames, from stores to results: a frame's own voxels have no effect.

Each frame's voxels are changed in a store, and the frames whose restoration changes are compared
with those that may have been given its spikes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.prepared import random_frames, store_metadata
from tests.deblurring.tiny_run import ALONE, CPU, NO_WORKERS
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.dataset_manifest import DatasetManifest, SequenceEntry
from vrtspike.data.clips.samples import Sample
from vrtspike.data.store.reading import Store
from vrtspike.data.store.writing import StoredFrame, write_store
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring.training_parts import training_batches, validation_batches
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.models import Restorer, build_model
from vrtspike.restoration.inference.tiling import tiling_for
from vrtspike.restoration.inputs.clip_source import StoreClipSource
from vrtspike.restoration.tiled_inference import restore_frames, torch_tile_model
from vrtspike.system.errors import DataError

FRAMES = 3
SIZE = 32
STATISTICS = VoxelStatistics(0.2, 0.4, 1)
SETTINGS = DeblurringSettings.model_validate(
    {
        "DATA": {
            "CROP_SIZE": SIZE,
            "CLIP_LEN": 1,
            "NEIGHBOURS": True,
            "NUM_VOXEL_BINS": 4,
            "VALIDATION": "test",
        },
        "MODEL": {
            "TYPE": "spike_nafnet",
            "SPIKE_ORDER": "shuffled",
            "NAF": {
                "WIDTH": 8,
                "ENCODER_BLOCKS": [1],
                "MIDDLE_BLOCKS": 1,
                "DECODER_BLOCKS": [1],
                "SPIKE_WIDTH": 4,
                "NEIGHBOUR_BINS": 4,
            },
        },
        "TRAIN": {"BATCH_SIZE": 2},
        "TEST": {"TILE": {"SIZE": 0, "FRAMES": 2}},
    }
)
"""All bins of neighbours could be seen, and windows of an evaluation begin at every frame."""

Restored = dict[tuple[int, int], torch.Tensor]
"""Restored frames by the draw and the frame's position in its sequence."""


def stored(folder: Path, changed: int | None = None, frames: int = FRAMES) -> DatasetManifest:
    """A data set of one sequence; voxels of one of its frames are changed."""
    metadata = store_metadata((56,) * frames, (SIZE, SIZE), (SIZE // 2, SIZE // 2))

    def contents() -> Iterator[StoredFrame]:
        for number, frame in enumerate(random_frames(metadata)):
            # Blurry frames of one grey: the sequence's gain is that of the unchanged voxels.
            frame["blur"][:] = 100 + number
            if number == changed:
                frame["voxels"] = np.roll(frame["voxels"], 5, axis=1)
            yield frame

    write_store(folder / "s.zarr", metadata, contents())
    entries = tuple(SequenceEntry(split, "s", 1, folder / "s.zarr") for split in ("train", "test"))
    options = StoreOptions(bins=4)
    return DatasetManifest(folder / "d.json", "d", options, "blur", "", STATISTICS, entries)


def control() -> Restorer:
    """The network of the control, away from its start at zero."""
    torch.manual_seed(0)
    model = build_model(SETTINGS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def first_frames(batch: Sample) -> list[int]:
    """Number of the first frame of each clip, by its grey."""
    return (batch.blur[:, 0, 0, 0, 0] - 100).tolist()


def trained_on(dataset: DatasetManifest) -> Restored:
    """Frames as a training sees and restores them, in many draws."""
    model = control().train()
    batches = training_batches(SETTINGS, dataset, NO_WORKERS, ALONE)
    restored: Restored = {}
    for step, batch in enumerate(batches.stream(0, 1, 24)):
        clips = prepare_batch(batch, STATISTICS, CPU)
        torch.manual_seed(step)
        for frame, start in zip(model(clips.blur, clips.voxels), first_frames(batch), strict=True):
            restored[step, int(start)] = frame[0]
    return restored


def validated_on(dataset: DatasetManifest) -> Restored:
    """Frames as a validation restores them."""
    model = control().eval()
    restored: Restored = {}
    for batch in validation_batches(SETTINGS, dataset, NO_WORKERS, ALONE):
        clips = prepare_batch(batch, STATISTICS, CPU)
        for frame, start in zip(model(clips.blur, clips.voxels), first_frames(batch), strict=True):
            restored[0, int(start)] = frame[0]
    return restored


def evaluated_on(dataset: DatasetManifest) -> Restored:
    """Frames as an evaluation restores them, and so any restoration of a clip."""
    tile_model = torch_tile_model(control().eval(), STATISTICS, CPU)
    source = StoreClipSource(Store(dataset.split("test")[0].store))
    tiling = tiling_for(SETTINGS)
    frames = restore_frames(tile_model, source, tiling, bits=None)
    return {(0, number): torch.from_numpy(frame) for number, frame in enumerate(frames)}


@pytest.mark.parametrize(
    ("restore", "reached"),
    [
        (trained_on, {0: {1}, 1: {0, 2}, 2: {1}}),
        # The frame before, and after the first one; the last frame's spikes are not used.
        (validated_on, {0: {1}, 1: {0, 2}, 2: set()}),
        # The second frame is the last of one window and the first of another.
        (evaluated_on, {0: {1}, 1: {0, 2}, 2: {1}}),
    ],
)
def test_spikes_reach_the_restoration_of_neighbours_and_never_that_of_their_frame(
    restore: Callable[[DatasetManifest], Restored], reached: dict[int, set[int]], tmp_path: Path
) -> None:
    with torch.no_grad():
        original = restore(stored(tmp_path / "original"))
        assert {frame for _, frame in original} == set(range(FRAMES))
        for changed, others in reached.items():
            restored = restore(stored(tmp_path / str(changed), changed))
            assert restored.keys() == original.keys()
            differences = {
                place: (restored[place] - frame).abs().max() for place, frame in original.items()
            }
            assert {n for (_, n), value in differences.items() if value > 1e-3} == others
            still = [value for (_, n), value in differences.items() if n not in others]
            assert max(still) < 1e-6


def test_a_sequence_of_one_frame_has_no_other_spikes(tmp_path: Path) -> None:
    dataset = stored(tmp_path, frames=1)
    for batches in (training_batches, validation_batches):
        with pytest.raises(DataError, match=r"SPIKE_ORDER is shuffled: .* \(1\):\n  - t\w+/s: 1 f"):
            batches(SETTINGS, dataset, NO_WORKERS, ALONE)
    model = SETTINGS.MODEL.model_copy(update={"USE_SPIKE": False})
    settings = SETTINGS.model_copy(update={"MODEL": model})
    validation_batches(settings, dataset, NO_WORKERS, ALONE)
