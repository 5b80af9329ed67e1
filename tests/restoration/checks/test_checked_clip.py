"""The checks of a clip before it is restored, into memory or into a folder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.small_run import recorded_clip
from tests.restoration.folder_runs import restore
from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.io.images import read_rgb, write_png
from vrtspike.restoration.checks.checked_clip import CheckedClip, check_clip
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import DataError


def with_gain(model: TrainedModel, factor: float) -> TrainedModel:
    """The model as if it was trained on recordings whose gain is another by a factor."""
    gain, _ = model.limits.gain
    limits = replace(model.limits, gain=(factor * gain, factor * gain))
    return replace(model, limits=limits)


def test_conversions_and_a_recording_outside_the_limits_are_noted(model, sequence, tmp_path):
    for path in (sequence / "blur").iterdir():
        write_png(tmp_path / path.name, 257 * read_rgb(path).astype(np.uint16))
    fine = recorded_clip(tmp_path, sequence / "spike")
    limits = with_gain(model, 0.5).limits
    checked = check_clip(fine, limits, keeps_16_bits=False, anyway=False)
    conversion, rounding, warning = checked.notes
    assert conversion.startswith(f"{tmp_path}: 16-bit values are taken with 65535 as white")
    assert rounding.startswith(f"{tmp_path}: an ONNX model takes 8 bits")
    assert warning.startswith(f"warning: {tmp_path}: outside the recordings")
    plain = recorded_clip(sequence / "blur", sequence / "spike")
    assert check_clip(plain, model.limits, keeps_16_bits=True, anyway=False).notes == ()


def test_both_ways_to_restore_give_the_same_notes(model, job):
    outside = with_gain(model, 0.5)
    notes = []
    restore(outside, job, note=notes.append)
    with pytest.warns(UserWarning, match="outside the recordings") as warned:
        outside.restore(job.frames, job.spikes)
    assert len(notes) == 1
    assert [str(warning.message) for warning in warned] == notes


def test_a_recording_far_outside_is_accepted_only_if_asked(model, sequence):
    clip = recorded_clip(sequence / "blur", sequence / "spike")
    far = with_gain(model, 0.1).limits
    with pytest.raises(DataError, match=rf"^{sequence / 'blur'}: far outside the recordings"):
        check_clip(clip, far, keeps_16_bits=True, anyway=False)
    checked = check_clip(clip, far, keeps_16_bits=True, anyway=True)
    pooled = checked.limit_check.adapt(clip).read(slice(0, 1)).spikes.counts.numpy()
    assert (pooled != clip.read(slice(0, 1)).spikes.counts.numpy()).any()


def test_frames_are_judged_outside_the_limits_by_spikes_that_fit(model, sequence, small_run):
    fitting = recorded_clip(sequence / "blur", sequence / "spike")
    other = recorded_clip(sequence / "blur", small_run.raw / "train/a/spike")
    outside = with_gain(model, 0.5).limits

    def checked(clip: InputClip, limits: RecordingLimits) -> CheckedClip:
        return check_clip(clip, limits, keeps_16_bits=True, anyway=True)

    assert checked(fitting, outside).is_judged
    assert not checked(fitting, model.limits).is_judged
    doubtful = checked(other, outside)
    assert doubtful.limit_check.is_outside
    assert doubtful.doubts
    assert not doubtful.is_judged
