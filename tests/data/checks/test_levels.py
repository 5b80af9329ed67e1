"""Colours, means and contrast of blurry frames beside those of the sharp ones."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.data.checks.sequences import OTHER, SEQUENCE, faults, has_fault, recode
from tests.data.prepared import check
from tests.data.scenes import film
from vrtspike.data.checks.frame_summaries import to_gray
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import write_sequence


def red_and_blue_exchanged(picture):
    return np.ascontiguousarray(picture[..., ::-1])


COLORS = r"blur/000001\.png: not the colours of \S+sharp/000001\.png .*red and blue are exchanged"


@pytest.mark.parametrize(
    ("kind", "change", "fault"),
    [
        ("blur", red_and_blue_exchanged, COLORS),
        ("sharp", red_and_blue_exchanged, COLORS),
        ("blur", lambda picture: np.dstack([to_gray(picture)] * 3), "one of it and .* has none"),
        ("blur", lambda picture: np.roll(picture, 1, axis=2), "not the colours .* another order"),
        ("sharp", lambda picture: picture // 2, r"means differ .* by \+\d+.*median of 5 frames"),
        ("sharp", lambda picture: 160 + picture // 6, r"means differ .* by -\d+.*of 5 frames"),
        (
            "sharp",
            lambda picture: faded(picture, 0.5),
            "times the contrast",
        ),
    ],
)
def test_blurry_and_sharp_frames_of_different_colours_or_levels(raw, kind, change, fault):
    recode(raw, f"{SEQUENCE}/{kind}/*.png", change)
    assert has_fault(raw, fault)
    assert len(faults(raw)) == 1
    assert faults(raw, OTHER) == []


def faded(picture, share):
    """A picture of less contrast and the same mean."""
    return (share * picture + (1 - share) * picture.mean((0, 1))).astype(np.uint8)


def test_a_contrast_that_varies_between_frames_is_no_fault(raw):
    for number, share in enumerate((1.0, 0.8, 0.58, 0.5, 0.45), start=1):
        recode(
            raw, f"{SEQUENCE}/sharp/{number:06d}.png", lambda picture, s=share: faded(picture, s)
        )
    assert faults(raw) == []


def demo_frames(number, count):
    """Frames of a demo scene."""
    frames = render(SCENES[number], np.random.default_rng([0, number]), 128, 192, count)
    return [np.ascontiguousarray(frame) for frame in frames]


def flickering(frames, share, period=2.4):
    """Frames under a lamp, which flickers faster than the frames follow each other."""
    levels = 0.6 + share * np.sin(2 * np.pi / period * np.arange(len(frames)))
    return [(frame * level).astype(np.uint8) for frame, level in zip(frames, levels, strict=True)]


def as_other_camera(frame):
    """The same picture by a camera with other gains, an offset and noise."""
    noise = np.random.default_rng(0).normal(0, 3, frame.shape)
    return np.clip(frame * np.array([1.06, 1, 0.94]) + 3 + noise, 0, 255).astype(np.uint8)


def tinted(picture, gains):
    """The same picture with other gains of red, green and blue."""
    return np.clip(np.rint(picture * np.array(gains)), 0, 255).astype(np.uint8)


def colorless(frames):
    return [np.dstack([to_gray(frame)] * 3) for frame in frames]


SOUND = {
    "linear light": (lambda: demo_frames(8, 56), SimulatedSensor(GAMMA=2.2)),
    "linear light, saturated, far": (
        lambda: [
            np.minimum(2.0 * frame, 255).astype(np.uint8) for frame in demo_frames(8, 168)[::3]
        ],
        SimulatedSensor(GAMMA=2.2, LIGHT_GAMMA=2.2),
    ),
    "flickering": (lambda: flickering(demo_frames(3, 56), 0.3), SimulatedSensor()),
    "flickering deeply": (lambda: flickering(demo_frames(6, 56), 0.5), SimulatedSensor()),
    "dark": (
        lambda: [(frame * 0.1).astype(np.uint8) for frame in demo_frames(2, 67)],
        SimulatedSensor(),
    ),
    "far": (lambda: film(1, 56, speed=14), SimulatedSensor(GAMMA=2.2)),
}
"""Frames, and the simulation of their blur and spikes."""


@pytest.mark.parametrize("kind", SOUND)
def test_sound_data_has_no_faults(tmp_path, kind):
    frames, how = SOUND[kind]
    write_sequence(tmp_path / SEQUENCE, frames(), frames_per_exposure=11, sensor=how)
    blur_dir = "blur" if how.GAMMA is None else "blur_gamma"
    assert check(tmp_path, SEQUENCE, blur_dir)["faults"] == []


@pytest.mark.parametrize("scene", [demo_frames, lambda *of: colorless(demo_frames(*of))])
def test_blurry_and_sharp_frames_of_two_cameras(tmp_path, scene):
    """Behind a beam splitter, which the cameras see in slightly different colours."""
    write_sequence(tmp_path / SEQUENCE, scene(0, 56), frames_per_exposure=11)
    recode(tmp_path, f"{SEQUENCE}/blur/*.png", as_other_camera)
    assert faults(tmp_path) == []
    recode(tmp_path, f"{SEQUENCE}/blur/*.png", lambda picture: picture // 2)
    recode(tmp_path, f"{SEQUENCE}/sharp/*.png", lambda picture: 128 + picture // 2)
    assert has_fault(tmp_path, "means differ")


def test_tints_of_grey_scenes_are_no_exchanged_channels(tmp_path):
    write_sequence(tmp_path / SEQUENCE, colorless(demo_frames(0, 56)), frames_per_exposure=11)
    for kind, gains in (("blur", (1.02, 1, 0.98)), ("sharp", (0.98, 1, 1.02))):
        recode(tmp_path, f"{SEQUENCE}/{kind}/*.png", lambda p, g=gains: tinted(p, g))
    assert faults(tmp_path) == []


def test_black_frames_do_not_hide_other_levels(five, tmp_path):
    root = shutil.copytree(five, tmp_path / "raw", ignore=shutil.ignore_patterns("spike"))
    recode(root, f"{SEQUENCE}/*/00000[123].png", np.zeros_like)
    assert faults(root) == []
    recode(root, f"{SEQUENCE}/sharp/00000[45].png", lambda picture: picture // 2)
    assert has_fault(root, r"means differ .*median of 2 frames")
