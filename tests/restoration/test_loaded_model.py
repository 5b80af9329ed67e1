"""Preparation of a clip for a model, which restoring into memory and into a folder share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.restoration.folder_runs import restore
from tests.small_run import recorded_clip
from vrtspike.io.images import read_rgb, write_png
from vrtspike.restoration.inference.tiling import Tiling
from vrtspike.restoration.trained import TrainedModel
from vrtspike.system.errors import DataError

WHOLE = Tiling(0, 8, 3, 1)


def with_gain(model: TrainedModel, factor: float) -> TrainedModel:
    """The model as if it was trained on recordings whose gain is another by a factor."""
    gain, _ = model.limits.gain
    limits = replace(model.limits, gain=(factor * gain, factor * gain))
    return replace(model, limits=limits)


def test_conversions_and_a_recording_outside_the_limits_are_noted(model, sequence, tmp_path):
    for path in (sequence / "blur").iterdir():
        write_png(tmp_path / path.name, 257 * read_rgb(path).astype(np.uint16))
    fine = recorded_clip(tmp_path, sequence / "spike")
    # An ONNX file has no network of PyTorch.
    exported = replace(with_gain(model, 0.5), network=None)
    conversion, rounding, warning = exported.prepare(fine, WHOLE, anyway=False).notes
    assert conversion.startswith(f"{tmp_path}: 16-bit values are taken with 65535 as white")
    assert rounding.startswith(f"{tmp_path}: an ONNX model takes 8 bits")
    assert warning.startswith(f"warning: {tmp_path}: outside the recordings")
    plain = recorded_clip(sequence / "blur", sequence / "spike")
    assert model.prepare(plain, WHOLE, anyway=False).notes == ()


def test_both_ways_to_restore_give_the_same_notes(model, job):
    outside = with_gain(model, 0.5)
    notes = []
    restore(outside, job, note=notes.append)
    with pytest.warns(UserWarning, match="outside the recordings") as warned:
        outside.restore(job.frames, job.spikes)
    assert len(notes) == 1
    assert [str(warning.message) for warning in warned] == notes


def test_a_recording_far_outside_is_prepared_only_if_asked(model, sequence):
    clip = recorded_clip(sequence / "blur", sequence / "spike")
    far = with_gain(model, 0.1)
    with pytest.raises(DataError, match=rf"^{sequence / 'blur'}: far outside the recordings"):
        far.prepare(clip, WHOLE, anyway=False)
    prepared = far.prepare(clip, WHOLE, anyway=True)
    pooled = prepared.check.adapt(prepared.source).read(slice(0, 1))["counts"]
    assert (pooled != clip.read(slice(0, 1))["counts"]).any()


def test_frames_are_judged_outside_the_limits_by_spikes_that_fit(model, sequence, small_run):
    fitting = recorded_clip(sequence / "blur", sequence / "spike")
    other = recorded_clip(sequence / "blur", small_run.raw / "train/a/spike")
    outside = with_gain(model, 0.5)
    assert outside.prepare(fitting, WHOLE, anyway=True).is_judged
    assert not model.prepare(fitting, WHOLE, anyway=True).is_judged
    doubtful = outside.prepare(other, WHOLE, anyway=True)
    assert doubtful.check.is_outside
    assert doubtful.doubts
    assert not doubtful.is_judged
