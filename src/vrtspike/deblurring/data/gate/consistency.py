"""Do the blurry frame, the sharp frame and the spikes of one number belong to each other?

A blurry frame and the mean of its exposure's spikes are the same light, so they look alike whatever
moves; coarsely, the sharp frame looks like them, too. A frame or spike file of another scene, of a
neighbouring frame, or one written backwards in time breaks one of these likenesses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.gate.alignment import (
    MIN_SIDE,
    MIN_TEXTURE,
    WINDOW,
    band_pass,
    correlation,
)
from vrtspike.deblurring.data.raw.spikes import PackedSpikes
from vrtspike.deblurring.rgb_images import Image
from vrtspike.io.images import luma, shrink

COARSE = 16
"""RGB pixels along a side that are averaged to compare a blurry with a sharp frame; fewer in frames
of less than 128 pixels."""
MIN_COARSE_LIKENESS = 0.5
"""Least correlation of blurry and sharp frame at that scale. Right pairs: GoPro 0.99, Sintel 0.99,
generated data 0.86 at least; frames of other sequences: 0.0 in the mean, GoPro at most 0.03. Where
there are spikes they decide instead: they look like the blurry frame however far things move."""
MAX_DETAIL = 1.2
"""Most fine detail (energy of the Laplacian) that a blurry frame has for each of its sharp frame's:
0.09 (GoPro), 0.36 (Sintel), 0.05 to 0.69 (generated); averaging frames cannot make more of it."""
MIN_SPIKE_LIKENESS = 0.5
"""Least band-passed correlation of a blurry frame with the mean of its spikes: 0.93 for the sharp
frame of a real exposure, 0.99 for simulated blurry frames; other sequences at most 0.4."""
MORE_LIKE = 0.03
"""By how much a neighbour has to fit better to be called the right one. In sound data the right one
fits better by 0.004 to 1.5."""
SURELY_LIKE = 0.8
"""Least correlation with a neighbour's picture for that to be called the right one."""
BACKWARDS = 0.1
"""By how much the wrong end of an exposure (a third of it) has to fit the next or previous exposure
better than the right end for time to run backwards. Sound data: worse by 0.15 to 0.74 in real
spikes, by 0.008 to 0.9 in generated ones; in the same files reversed, better by as much.
The margin finds 9 in 10 reversed exposures of the demo data; the others hardly move."""
MIN_END_LIKENESS = 0.3
"""Least correlation of that end: what moves on by a whole picture fits nothing."""

LEAST_LIKENESS = 0.8
"""Below it two frames show different scenes. Pairs of GoPro and of averaged Sintel frames have 0.94
or more, frames of another sequence 0.5 at most, those of the same sequence two frames on 0.7."""

_LOW_PASS = 0.01
"""Standard deviation of the Gaussian low-pass filter, as a part of the longer side."""
_MIN_CONTRAST = 2.0
"""Standard deviation, of 255, below which a coarse picture says nothing."""
_MIN_DETAIL = 5.0
"""Energy of the Laplacian, of 255 squared, below which there is no detail to compare."""
_WIDE = 22
"""Side from which on a coarse picture is large enough to remove what all scenes share: bright sky
above dark ground."""
_BOX = 11
_NAMED = 4
"""Files of one kind of fault that are named."""

Grey = NDArray[np.float32]


@dataclass(frozen=True)
class SpikeView:
    """What is compared of the spikes of an exposure; pictures are band-passed, at sensor size."""

    path: str
    contents: int
    """Hash of the spikes, by which they are known again in this process."""
    count: int
    """Spikes of all pixels and steps."""
    steps: int
    """T."""
    blur: Grey
    mean: Grey
    first: Grey
    """The first third of the steps."""
    last: Grey

    @property
    def assessable(self) -> bool:
        """Whether picture and sensor are rich and large enough for a verdict.

        The mean of more steps is less noisy than that of the window which MIN_TEXTURE is for.
        """
        texture = MIN_TEXTURE * (WINDOW / max(self.steps, WINDOW)) ** 0.5
        return float(self.blur.std()) >= texture and min(self.blur.shape) >= MIN_SIDE


@dataclass(frozen=True)
class FrameView:
    """What is compared of a frame with its own parts and with its neighbours."""

    blur_path: str
    sharp_path: str
    blur_digest: str
    """Of the grey picture, so that a file saved once more is still the same picture."""
    sharp_digest: str
    blur: Grey
    """Coarse picture."""
    sharp: Grey
    detail: tuple[float, float]
    """Energy of the Laplacian of the blurry and the sharp frame."""
    spikes: SpikeView | None = None
    has_fault: bool = False
    """Whether its spikes were found not to show its sharp frame: that is said once."""

    @property
    def assessable(self) -> bool:
        """Whether the coarse pictures say anything."""
        return min(float(self.blur.std()), float(self.sharp.std())) >= _MIN_CONTRAST


def gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luma of RGB (H, W, 3), rounded: (H, W)."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def view_frame(
    paths: tuple[str, str], blur: NDArray[np.uint8], sharp: NDArray[np.uint8]
) -> FrameView:
    """Reduce a frame to what is compared.

    Args:
        paths: of the blurry and the sharp frame, for messages.
        blur: uint8 (H, W), see :func:`gray`.
        sharp: likewise, of the same size.
    """
    return FrameView(
        *paths,
        _digest(blur),
        _digest(sharp),
        _coarse(blur),
        _coarse(sharp),
        (_detail(blur), _detail(sharp)),
    )


def view_spikes(path: str, spikes: PackedSpikes, blur: NDArray[np.uint8]) -> SpikeView:
    """Reduce the spikes of an exposure to what is compared.

    Args:
        path: of their file, for messages.
        spikes: (T, h, w), T at least 3.
        blur: the blurry frame, uint8 (H, W).
    """
    steps, height, width = spikes.shape
    ends = pairwise(np.linspace(0, steps, 4).astype(int))
    first, middle, last = (spikes.picture(*each) for each in ends)
    every = first + middle + last
    return SpikeView(
        path,
        hash(spikes.sampled.rows.tobytes()),
        round(every.sum(dtype=np.float64)),
        steps,
        band_pass(shrink(blur, height, width).astype(np.float32) / np.float32(255)),
        *(band_pass(picture) for picture in (every, first, last)),
    )


def _digest(values: NDArray[np.uint8]) -> str:
    """32 hexadecimal digits."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()


class Consistency:
    """The comparison of a sequence's frames, given in order; three are held at a time."""

    def __init__(self) -> None:
        self._previous: FrameView | None = None
        self._current: FrameView | None = None
        self._blurry: dict[str, FrameView] = {}
        self._sharp: dict[str, FrameView] = {}
        self._spikes: dict[int, SpikeView] = {}
        self._faults: dict[str, list[str]] = {}

    def add(self, view: FrameView) -> None:
        """Take in the next frame."""
        self._compare_copies(view)
        if self._current is not None:
            self._judge(self._previous, self._current, view)
        self._previous, self._current = self._current, view

    def finish(self) -> list[str]:
        """The faults of all frames, those of one kind in one line."""
        if self._current is not None:
            self._judge(self._previous, self._current, None)
        return [_summary(found) for found in self._faults.values()]

    def _fault(self, kind: str, text: str) -> None:
        self._faults.setdefault(kind, []).append(text)

    def _compare_copies(self, view: FrameView) -> None:
        """Find pictures and spike files that occur twice although something else differs."""
        blurry = self._blurry.setdefault(view.blur_digest, view)
        if blurry.sharp_digest != view.sharp_digest:
            self._copied(view.blur_path, blurry.blur_path, "sharp frames")
        sharp = self._sharp.setdefault(view.sharp_digest, view)
        if sharp.blur_digest != view.blur_digest:
            self._copied(view.sharp_path, sharp.sharp_path, "blurry frames")
        if view.spikes is not None and view.spikes.count:
            spikes = self._spikes.setdefault(view.spikes.contents, view.spikes)
            if spikes is not view.spikes:
                self._copied(view.spikes.path, spikes.path, "exposures")

    def _copied(self, path: str, other: str, differing: str) -> None:
        self._fault(
            "copied",
            f"{path}: the same contents as {other}, but their {differing} are different ones: one "
            "was copied over the other; put the original back",
        )

    def _judge(
        self, previous: FrameView | None, view: FrameView, following: FrameView | None
    ) -> None:
        neighbours = [other for other in (previous, following) if other is not None]
        spikes = view.spikes if view.spikes and view.spikes.assessable else None
        fits = spikes is not None and self._compare_exposures(view, spikes, neighbours)
        if spikes is not None and fits:
            self._compare_ends(spikes, previous, following)
        self._compare_frames(view, neighbours, same_scene=fits)

    def _compare_frames(
        self, view: FrameView, neighbours: Sequence[FrameView], *, same_scene: bool
    ) -> None:
        """Compare the blurry frame of a number with the sharp one, and with those beside it.

        Args:
            view: the frame.
            neighbours: of it.
            same_scene: known from the spikes, which both were compared with.
        """
        if view.blur_digest == view.sharp_digest:
            # Where nothing moves, a noiseless simulation blurs nothing.
            if all(other.sharp_digest != view.sharp_digest for other in neighbours):
                self._fault(
                    "equal",
                    f"{view.blur_path}: the same picture as {view.sharp_path}, expected the "
                    "blurry one: put it there",
                )
            return
        if not view.assessable:
            return
        own = correlation(view.blur, view.sharp)
        likeness = [(correlation(view.blur, other.sharp), other) for other in neighbours]
        better = [(it, other) for it, other in likeness if it > max(own + MORE_LIKE, SURELY_LIKE)]
        if own < MIN_COARSE_LIKENESS and not better and not (same_scene or view.has_fault):
            self._fault(
                "another scene",
                f"{view.blur_path}: does not show the scene of {view.sharp_path} (coarse "
                f"correlation {own:.2f}, expected at least {MIN_COARSE_LIKENESS}): put the frames "
                "of the same sequence and number side by side",
            )
            return
        for theirs, other in better:
            self._fault(
                "neighbour",
                f"{view.blur_path}: more like {other.sharp_path} (coarse correlation {theirs:.2f}) "
                f"than {view.sharp_path} ({own:.2f}): frames are exchanged; give each its own "
                "number",
            )
        blurry, sharp = view.detail
        if blurry > max(MAX_DETAIL * sharp, _MIN_DETAIL):
            self._fault(
                "detail",
                f"{view.blur_path}: {blurry / max(sharp, 1e-9):.1f} times the fine detail of "
                f"{view.sharp_path}, expected less than {MAX_DETAIL}: blurry and sharp frames are "
                "exchanged; exchange their folders or files",
            )

    def _compare_exposures(
        self, view: FrameView, spikes: SpikeView, neighbours: Sequence[FrameView]
    ) -> bool:
        """Compare a blurry frame with its spikes and those beside them; whether its own fit."""
        own = correlation(spikes.blur, spikes.mean)
        likeness = [
            (correlation(spikes.blur, other.spikes.mean), other.spikes)
            for other in neighbours
            if other.spikes is not None and other.spikes.mean.shape == spikes.blur.shape
        ]
        better = [(it, other) for it, other in likeness if it > max(own + MORE_LIKE, SURELY_LIKE)]
        if own < MIN_SPIKE_LIKENESS and not better:
            self._fault(
                "another exposure",
                f"{spikes.path}: the spikes are not those of {view.blur_path} (correlation "
                f"{own:.2f}, expected at least {MIN_SPIKE_LIKENESS}): put frames and spikes of the "
                "same sequence and number side by side",
            )
            return False
        for theirs, found in better:
            self._fault(
                "neighbour's exposure",
                f"{spikes.path}: {view.blur_path} is more like the spikes of {found.path} "
                f"(correlation {theirs:.2f}) than like these ({own:.2f}): frames or spike files "
                "are exchanged or copied; give each its own number",
            )
        return not better

    def _compare_ends(
        self, spikes: SpikeView, previous: FrameView | None, following: FrameView | None
    ) -> None:
        """Find out whether time runs backwards in an exposure; nothing tells that of a lone one."""
        sides = []
        if following is not None and following.spikes is not None:
            sides.append((spikes.last, spikes.first, following.spikes.first))
        if previous is not None and previous.spikes is not None:
            sides.append((spikes.first, spikes.last, previous.spikes.last))
        # Pictures at the right end, the wrong one, and beyond the right one.
        by = [
            (correlation(right, beyond), correlation(wrong, beyond))
            for right, wrong, beyond in sides
        ]
        if by and all(wrong > max(right + BACKWARDS, MIN_END_LIKENESS) for right, wrong in by):
            least = min(wrong - right for right, wrong in by)
            self._fault(
                "backwards",
                f"{spikes.path}: its beginning is more like the frame after it and its end more "
                f"like the one before (by {least:.2f} at least, expected the opposite): time "
                "runs backwards in it; write its steps in the order they were recorded in",
            )


def _summary(faults: Sequence[str]) -> str:
    """The first fault of a kind, and of how many files the same is true."""
    if len(faults) == 1:
        return faults[0]
    others = ", ".join(fault.partition(": ")[0] for fault in faults[1:_NAMED])
    more = f", and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return f"{faults[0]} (likewise {others}{more})"


def _coarse(grey: NDArray[np.uint8]) -> Grey:
    """Areas averaged, less the mean, and in large frames less what changes slowly."""
    height, width = grey.shape
    side = max(1, min(COARSE, min(height, width) // 8))
    size = max(1, width // side), max(1, height // side)
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    if min(small.shape) >= _WIDE:
        return np.asarray(small - cv2.blur(small, (_BOX, _BOX)), np.float32)
    return np.asarray(small - small.mean(), np.float32)


def _detail(grey: NDArray[np.uint8]) -> float:
    """Mean square of the Laplacian."""
    return float(cv2.norm(cv2.Laplacian(grey, cv2.CV_16S), cv2.NORM_L2SQR)) / grey.size


def likeness(blur: Image, sharp: Image) -> float:
    """Correlation of what two frames show at low frequencies, which blur leaves as they are.

    Args:
        blur: (H, W, 3) uint8 RGB.
        sharp: the same shape.

    Returns:
        from -1 to 1; 1 where a frame has no contrast, which tells nothing.
    """
    sigma = max(1.0, _LOW_PASS * max(sharp.shape[:2]))
    low = [cv2.GaussianBlur(luma(frame), (0, 0), sigma) for frame in (blur, sharp)]
    if min(np.ptp(plane) for plane in low) < 1:  # less than a grey level
        return 1.0
    return correlation(*(np.asarray(plane - plane.mean(), np.float32) for plane in low))
