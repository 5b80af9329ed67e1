"""Clips of the control with shuffled spikes: those of other models, with other frames' spikes."""

from __future__ import annotations

import pytest
import torch

from tests.data.clips.filmed import equal, find, settings, whole_sequence
from vrtspike.data.clips.dataset import ClipDataset
from vrtspike.data.clips.shuffled_spikes import ShuffledSpikesDataset


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize(("split", "train"), [("train", True), ("test", False)])
def test_clips_have_spikes_of_other_frames_on_both_sides(filmed, split, train, length):
    options = settings(CLIP_LEN=length, NEIGHBOURS=True, CROP_SIZE=88)
    clips = ShuffledSpikesDataset(filmed, split, options, train=train)
    plain = ClipDataset(filmed, split, options, train=train)
    for index, sample in enumerate(clips):
        # The crops are those of other clips.
        assert torch.equal(sample.blur, plain[index].blur)
        assert sample.spikes.has_neighbors.tolist() == [True, True]
        name, start = clips.clips[index]
        full = whole_sequence(filmed, name)
        top, left = find(sample.blur, full.blur[start : start + length])
        last = len(full.blur) - 1
        frames = [abs(frame) for frame in range(start - 1, start + length + 1)]
        if frames[-1] > last:
            frames[-1] = last - 1
        counts = full.spikes.counts[frames, :, top // 2 :, left // 2 :][..., :44, :44]
        assert torch.equal(sample.spikes.counts, counts)
        assert torch.equal(sample.spikes.bin_steps, full.spikes.bin_steps[frames])


def test_clips_without_neighbours_are_those_of_other_models(filmed):
    clips, plain = (
        kind(filmed, "train", settings(AUGMENT=True), seed=2)
        for kind in (ShuffledSpikesDataset, ClipDataset)
    )
    assert equal(clips[1], plain[1])
