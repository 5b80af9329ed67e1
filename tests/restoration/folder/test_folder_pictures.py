"""Pictures of 16 bits, grey ones and ones with transparency, restored into a folder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.restoration.folder_runs import pictures, restore
from vrtspike.io.images import read_picture, read_rgb, write_png


def convert_frames(folder: Path, convert) -> Path:
    """The frames of a folder, each changed, in a folder beside the results."""
    for path in sorted(folder.iterdir()):
        write_png(folder.parent / "changed" / path.name, convert(read_rgb(path)))
    return folder.parent / "changed"


@pytest.fixture
def sequence_copy(job, tmp_path):
    return Path(shutil.copytree(job.frames, tmp_path / "blur"))


def test_frames_of_16_bits_are_restored_with_16(model, job, whole, sequence_copy):
    job = replace(job, tile=32)
    fine = convert_frames(sequence_copy, lambda image: image.astype(np.uint16) * 257)
    notes: list[str] = []
    restore(model, replace(job, frames=fine, sharp=fine), notes.append)
    expected = pictures(whole[0].output / "restored")
    restored = [read_picture(path).rgb for path in sorted((job.output / "restored").iterdir())]
    assert {image.dtype for image in restored} == {np.dtype(np.uint16)}
    # The same values as of 8 bits, which are these rounded: half a level of 257.
    np.testing.assert_allclose(np.stack(restored) / 257, expected, atol=0.502)
    assert np.any(np.stack(restored) % 257)
    assert len([note for note in notes if "16-bit values" in note]) == 1


def test_bits_below_the_eighth_reach_the_model(model, job, sequence_copy):
    job, low = (
        replace(job, tile=32),
        convert_frames(sequence_copy, lambda image: image.astype(np.uint16) * 257),
    )
    restore(model, replace(job, frames=low))
    high = Path(shutil.copytree(low, low.with_name("higher")))
    for path in high.iterdir():
        write_png(
            path, np.minimum(read_picture(path).rgb.astype(int) + 100, 65535).astype(np.uint16)
        )
    output = job.output.with_name("higher_out")
    restore(model, replace(job, frames=high, output=output))
    one, other = (
        read_picture(folder / "restored/000003.png").rgb.astype(int)
        for folder in (job.output, output)
    )
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda image: image[:, :, 1], "grey is taken as RGB of three equal channels"),
        (lambda image: np.dstack([image, image[:, :, 0]]), "transparency is"),
    ],
    ids=["grey", "RGBA"],
)
def test_grey_and_transparent_frames_are_restored_with_one_note(
    model, job, sequence_copy, convert, message
):
    changed = sequence_copy.parent / "changed"
    changed.mkdir()
    for path in sequence_copy.iterdir():
        image = convert(read_rgb(path))
        order = [2, 1, 0, 3]
        (changed / path.name).write_bytes(
            cv2.imencode(".png", image[..., order] if image.ndim == 3 else image)[1]
        )
    notes: list[str] = []
    restore(model, replace(job, frames=changed, tile=32), notes.append)
    (note,) = notes
    assert message in note
    restored = pictures(job.output / "restored")
    assert len(restored) == 5
