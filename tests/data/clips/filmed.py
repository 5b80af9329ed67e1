"""Settings, sequences and comparison for clips of the data set `filmed`."""

from __future__ import annotations

import torch

from vrtspike.data.clips.samples import read_clip
from vrtspike.data.store.reading import Store
from vrtspike.deblurring_settings import DeblurringSettings

FRAMES = {"train/a": 6, "train/b": 4, "test/c": 5}


def settings(**data):
    values = {"NUM_VOXEL_BINS": 8, "CROP_SIZE": 32, "CLIP_LEN": 3, "AUGMENT": False, **data}
    model = {"TYPE": "spike_nafnet", "NAF": {"NEIGHBOUR_BINS": 2}}
    return DeblurringSettings.model_validate({"DATA": values, "MODEL": model}).DATA


def whole_sequence(dataset, name):
    """A sequence as one clip."""
    split, sequence = name.split("/")
    entry = next(e for e in dataset.split(split) if e.name == sequence)
    frames = slice(0, FRAMES[name])
    return read_clip(Store(entry.store), frames, slice(0, 96), slice(0, 128))


def find(crop, frames):
    """Top left corner of a crop in the frames it was cut from."""
    height, width = crop.shape[1:3]
    for top in range(0, frames.shape[1] - height + 1):
        for left in range(0, frames.shape[2] - width + 1):
            if torch.equal(frames[:, top : top + height, left : left + width], crop):
                return top, left
    raise AssertionError("the crop is not part of the frames")


def equal(sample, other):
    """Return whether two samples are the same."""
    return all(
        a is b if a is None else torch.equal(a, b)
        for a, b in zip(tensors(sample), tensors(other), strict=True)
    )


def tensors(sample):
    """All tensors of a sample, or None in place of its spikes."""
    return [sample.blur, sample.sharp, *([None] if sample.spikes is None else sample.spikes)]
