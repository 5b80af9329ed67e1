"""Requests: their options, and inputs that cannot be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.restoration.folder_runs import NAMES, pictures, restore
from vrtspike.io.images import write_png
from vrtspike.system.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("option", "place"),
    [("frames", "restored"), ("frames", "restored.mp4"), ("sharp", "restored/../restored")],
)
def test_results_are_not_written_over_their_input(model, whole, option, place):
    job, _ = whole
    changed = replace(job, overwrite=True, **{option: job.output / place})
    with pytest.raises(ConfigError, match="lies where the results of"):
        restore(model, changed)
    assert len(pictures(job.output / "restored")) == len(NAMES)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "sharp: no pictures"),
        (NAMES, r"000001\.png: 48 x 62 pixels, expected 48 x 64"),
        (NAMES[1:], r"without a sharp one \(1\):\n  - 000001"),
    ],
)
def test_sharp_frames_that_cannot_be_compared_are_refused(model, job, tmp_path, names, message):
    for name in names:
        write_png(tmp_path / "sharp" / f"{name}.png", np.zeros((48, 62, 3), np.uint8))
    with pytest.raises(DataError, match=message):
        restore(model, replace(job, sharp=tmp_path / "sharp"))
    assert not job.output.exists()


def test_an_unknown_option_of_a_call_is_refused(model, job):
    with pytest.raises(TypeError, match="unexpected keyword argument 'vidoe'"):
        model.restore_folder(job.frames, job.spikes, job.output, vidoe=True)
    assert not job.output.exists()
