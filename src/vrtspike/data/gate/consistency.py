"""Do the blurry frame, the sharp frame and the spikes of one number belong to each other?

A blurry frame and the mean of its exposure's spikes measure the same light, so they look alike
however the scene moves; at low resolution the sharp frame looks like both. A frame or spike file of
another scene or of a neighbouring frame, or spikes written backwards in time, are noticed by a low
correlation.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.gate.alignment import MIN_SIDE, MIN_TEXTURE, WINDOW, band_pass, correlation
from vrtspike.data.raw.spikes import PackedSpikes
from vrtspike.io.images import shrink

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
MIN_END = 6
"""Fewest steps of an end: four of them were so noisy that sound data looked reversed by 0.14; eight
real ones do not."""
MIN_END_LIKENESS = 0.3
"""Least correlation of that end: what moves on by a whole picture fits nothing."""

MAX_UNLIKE_COLOURS = -0.2
"""Correlation of the colours of a blurry and a sharp frame (less their mean, which two cameras see
differently) below which their channels are in another order. Right pairs: GoPro 0.99, generated
data at least 0.9, 0.16 where textures move far; with red and blue exchanged in one of them -0.46
to -0.98 in natural pictures."""
MIN_COLOUR = 2.0
"""Mean deviation of both from that mean, of 255, below which their order is not compared; natural
pictures: 7 to 28."""
MIN_COLOURED = 8.0
"""The same of one of them from which the other must have colours, too: two cameras whose gains
differ by a tenth make up to 5 in grey scenes."""
MIN_COLOUR_SHARE = 0.1
"""Least colour of one for that of the other, in the median of a sequence: 0.3 to 1 in right pairs,
0.0 where one is grey."""
MAX_LEVEL_DIFFERENCE = 25.0
"""Most that the means of a channel may differ, of 255, in the median of a sequence and beyond its
uncertainty. Averaged coded values: 0.1 (GoPro), at most 0.4 (generated). Averaged in linear light,
which is brighter: 4.5 (Sintel), up to 19 (generated, saturated skies that move far). Two cameras
behind a beam splitter (BSD) differ a little in colour; gains that differ by a tenth make 18."""
MAX_SPREAD = 1.5
"""Most coarse contrast of a blurry frame for that of its sharp one, in the same median: 0.36 to 1.1
in right pairs, up to 1.18 where few bright points are averaged in linear light; blur hardly adds
contrast."""
MAX_FLAT = 1.0
"""Standard deviation, of 255, up to which a picture shows nothing."""
MIN_SCENE = 0.03
"""Contrast of the rates of spikes (band-passed, 0 to 1) from which they show a scene; counting
noise over 88 steps leaves less than 0.01."""
MIN_COARSE_SCENE = 4.0
"""The same of a coarse picture, of 255."""
STANDARD_ERROR = 1.86
"""Standard error of a median, times the square root of the number of values, for their median
absolute deviation: 1.48 for the standard deviation times 1.25 for the median."""
THUMBNAIL = 16
"""Rows and columns of the small picture by which copies are found."""

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


class PictureView(NamedTuple):
    """What is compared of a blurry or a sharp frame."""

    path: str
    digest: str
    """Of the grey picture, so that a file saved once more is still the same picture."""
    coarse: Grey
    detail: float
    """Energy of the Laplacian."""
    colours: Grey
    """(h, w, 3), averaged like ``coarse``; each pixel less its mean, and less that of all."""
    mean: Grey
    """Of each channel."""
    brightness: float
    """Mean of the grey picture."""
    spread: Grey
    """Standard deviation of each channel, averaged like ``coarse``."""
    contrast: float
    """Standard deviation of the grey picture."""
    thumbnail: NDArray[np.uint8]


class SpikeView(NamedTuple):
    """What is compared of the spikes of an exposure; pictures are band-passed, at sensor size."""

    path: str
    digest: str
    total: int
    """Spikes of all pixels and steps."""
    assessable: bool
    """Whether picture and sensor are rich and large enough for a verdict."""
    blur: Grey
    mean: Grey
    scene: float
    """Standard deviation of ``mean``, as a rate from 0 to 1."""
    has_clear_ends: bool
    """Whether the contrast of a third of the steps exceeds the noise of its spikes.

    Their rate is about half the grey value.
    """
    first: Grey
    """The first third of the steps."""
    last: Grey


class FrameView(NamedTuple):
    """What is compared of a frame with its own parts and with its neighbours."""

    blur: PictureView
    sharp: PictureView
    spikes: SpikeView | None = None


def gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luma of RGB (H, W, 3), rounded: (H, W)."""
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)


def view_picture(path: str, picture: NDArray[np.uint8]) -> PictureView:
    """Reduce a frame to what is compared.

    Args:
        path: of the frame, for messages.
        picture: uint8 RGB (H, W, 3).
    """
    grey = gray(picture)
    laplacian = cv2.Laplacian(grey, cv2.CV_16S)
    detail = float(cv2.norm(laplacian, cv2.NORM_L2SQR)) / grey.size
    size = _coarse_size(grey)
    brightness, contrast = cv2.meanStdDev(grey)
    areas = cv2.resize(picture, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    colours = areas - areas.mean(axis=2, keepdims=True)
    small = (THUMBNAIL, THUMBNAIL)
    return PictureView(
        path=path,
        digest=_digest(grey),
        coarse=_coarse(grey),
        detail=detail,
        colours=np.asarray(colours - colours.mean(axis=(0, 1)), np.float32),
        mean=np.asarray(areas.mean(axis=(0, 1)), np.float32),
        spread=np.asarray(areas.std(axis=(0, 1)), np.float32),
        brightness=float(brightness[0, 0]),
        contrast=float(contrast[0, 0]),
        thumbnail=np.asarray(cv2.resize(grey, small, interpolation=cv2.INTER_AREA), np.uint8),
    )


def view_spikes(path: str, spikes: PackedSpikes, blur: NDArray[np.uint8]) -> SpikeView:
    """Reduce the spikes of an exposure to what is compared.

    Args:
        path: of their file, for messages.
        spikes: (T, h, w).
        blur: the blurry frame, uint8 (H, W).
    """
    steps, height, width = spikes.shape
    third = steps // 3
    first, last = spikes.picture(0, third), spikes.picture(steps - third)
    every = first + spikes.picture(third, steps - third) + last
    seen = band_pass(shrink(blur, height, width).astype(np.float32) / np.float32(255))
    # The mean of more steps is less noisy than that of the window which MIN_TEXTURE is for.
    texture = min(MIN_TEXTURE, _min_texture(steps))
    mean = band_pass(every)
    scene = float(mean.std()) / steps
    return SpikeView(
        path=path,
        digest=_digest(spikes.sampled.rows),
        total=round(every.sum(dtype=np.float64)),
        assessable=float(seen.std()) >= texture and min(height, width) >= MIN_SIDE,
        blur=seen,
        mean=mean,
        scene=scene if min(height, width) >= MIN_SIDE else 0.0,
        has_clear_ends=third >= MIN_END and 2 * scene >= _min_texture(third),
        first=band_pass(first),
        last=band_pass(last),
    )


def _min_texture(steps: int) -> float:
    """Contrast above the noise of so many steps."""
    return float(MIN_TEXTURE * (WINDOW / max(steps, 1)) ** 0.5)


def _digest(values: NDArray[np.uint8]) -> str:
    """32 hexadecimal digits."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()


class Consistency:
    """The comparison of a sequence's frames, given in order; three are held at a time."""

    def __init__(self) -> None:
        self._held: deque[FrameView | None] = deque([None, None], maxlen=3)
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        """What was seen first of each contents: its path, and the contents of its partner."""
        self._faults = defaultdict[str, list[str]](list)
        """By their kind."""
        self._level_differences: list[Grey] = []
        self._spreads: list[Grey] = []
        self._colour_shares: list[float] = []
        self._first_pair: tuple[str, str] | None = None

    def add(self, view: FrameView) -> None:
        """Take in the next frame."""
        blur, sharp, spikes = view
        self._compare_contents("sharp frames", blur, sharp.digest)
        self._compare_contents("blurry frames", sharp, blur.digest)
        if spikes is not None and spikes.total:
            self._compare_contents("exposures", spikes, spikes.path)
        self._compare_flatness(view)
        self._compare_colours(blur, sharp)
        self._take(view)

    def finish(self) -> list[str]:
        """The faults of all frames, those of one kind in one line."""
        self._take(None)
        self._compare_levels()
        return [_summary(found) for found in self._faults.values()]

    def _compare_flatness(self, view: FrameView) -> None:
        """Report a picture of one colour whose partner or spikes show a scene."""
        pictures = (view.blur, view.sharp)
        for picture, partner in (pictures, pictures[::-1]):
            if picture.contrast > MAX_FLAT:
                continue
            scene = ""
            if view.spikes is not None and view.spikes.scene >= MIN_SCENE:
                scene = view.spikes.path
            elif partner.coarse.std() >= MIN_COARSE_SCENE:
                scene = partner.path
            if scene:
                self._faults["flat"].append(
                    f"{picture.path}: a picture of one colour (standard deviation "
                    f"{picture.contrast:.1f} of 255), but {scene} shows a scene: put the right "
                    "picture there"
                )

    def _compare_colours(self, blur: PictureView, sharp: PictureView) -> None:
        """Report channels that are exchanged or missing in one picture of a pair."""
        self._first_pair = self._first_pair or (blur.path, sharp.path)
        if min(blur.contrast, sharp.contrast) <= MAX_FLAT:
            return
        self._level_differences.append(blur.mean - sharp.mean)
        spread = blur.spread / np.maximum(sharp.spread, np.float32(1))
        self._spreads.append(np.asarray(spread, np.float32))
        sizes = _size(blur.colours), _size(sharp.colours)
        if max(sizes) >= MIN_COLOURED:
            self._colour_shares.append(min(sizes) / max(sizes))
        likeness = _colour_likeness(blur.colours, sharp.colours)
        if min(sizes) < MIN_COLOUR or likeness >= MAX_UNLIKE_COLOURS:
            return
        exchanged = _colour_likeness(blur.colours[..., ::-1], sharp.colours)
        cause = "the channels of one of them are in another order"
        if exchanged > -likeness / 2:
            cause = f"red and blue are exchanged in one of them (exchanged back: {exchanged:.2f})"
        self._faults["colours"].append(
            f"{blur.path}: not the colours of {sharp.path} (correlation {likeness:.2f}, expected "
            f"at least {MAX_UNLIKE_COLOURS}): {cause}; write both as RGB"
        )

    def _compare_levels(self) -> None:
        """Report a sequence whose blurry and sharp frames differ in brightness or contrast."""
        # Darker sharp frames have less detail, too; other faults say more than levels do.
        if set(self._faults) - {"detail"}:
            return
        if not self._level_differences or self._first_pair is None:
            return
        blur, sharp = self._first_pair
        count = f"median of {len(self._level_differences)} frames"
        advice = "write both with the same exposure, colour balance and gamma"
        if self._colour_shares and np.median(self._colour_shares) < MIN_COLOUR_SHARE:
            self._faults["colours"].append(
                f"{blur}: one of it and {sharp} has colours, the other one has none ({count}); "
                "write both as RGB"
            )
            return
        difference, uncertainty = _typical(self._level_differences)
        if (np.abs(difference) - uncertainty).max() > MAX_LEVEL_DIFFERENCE:
            levels = ", ".join(f"{value:+.1f}" for value in difference)
            self._faults.pop("detail", None)
            self._faults["levels"].append(
                f"{blur}: the channels' means differ from those of {sharp} by {levels} of 255 "
                f"({count}, expected at most {MAX_LEVEL_DIFFERENCE:.0f}): {advice}"
            )
            return
        spread, uncertainty = _typical(self._spreads)
        if (spread - uncertainty).max() > MAX_SPREAD and not self._faults:
            self._faults["levels"].append(
                f"{blur}: {spread.max():.1f} times the contrast of {sharp} ({count}, expected at "
                f"most {MAX_SPREAD}): {advice}"
            )

    def _compare_contents(self, partners: str, view: PictureView | SpikeView, partner: str) -> None:
        """Tell the same contents twice that belong to different partners."""
        first = self._known.setdefault((partners, view.digest), (view.path, partner))
        if partner != first[1]:
            self._faults["copied"].append(
                f"{view.path}: the same contents as {first[0]}, but their {partners} are different "
                "ones: one was copied over the other; put the original back"
            )

    def _take(self, following: FrameView | None) -> None:
        """Compare the parts of the frame before with each other and with its neighbours'."""
        self._held.append(following)
        previous, view, _ = self._held
        if view is None:
            return
        blur, sharp, spikes = view
        beside = [each for each in (previous, following) if each is not None]
        least = MIN_COARSE_LIKENESS
        if spikes is not None and spikes.assessable:
            others = {each.spikes.path: each.spikes.mean for each in beside if each.spikes}
            parts = {blur.path: spikes.blur, spikes.path: spikes.mean}
            if self._fits("spikes", parts, others, MIN_SPIKE_LIKENESS):
                # Of what moves far the spikes know better whether it is the same scene.
                least = -1.0
                if spikes.has_clear_ends:
                    self._compare_ends(spikes, previous, following)
        if blur.digest == sharp.digest:
            # Where nothing moves, a noiseless simulation blurs nothing.
            if all(each.sharp.digest != sharp.digest for each in beside):
                self._faults["equal"].append(
                    f"{blur.path}: the same picture as {sharp.path}, expected the blurry one: put "
                    "it there"
                )
        elif min(blur.coarse.std(), sharp.coarse.std()) >= _MIN_CONTRAST:
            others = {each.sharp.path: each.sharp.coarse for each in beside}
            parts = {blur.path: blur.coarse, sharp.path: sharp.coarse}
            detail = _relative_detail(blur, sharp)
            is_rich = blur.detail > _MIN_DETAIL and detail > MAX_DETAIL
            if self._fits("sharp frame", parts, others, least) and is_rich:
                self._faults["detail"].append(
                    f"{blur.path}: {detail:.1f} times the fine detail of {sharp.path}, "
                    f"expected less than {MAX_DETAIL}: blurry and sharp frames are exchanged; "
                    "exchange their folders or files"
                )

    def _fits(
        self, kind: str, parts: Mapping[str, Grey], others: Mapping[str, Grey], least: float
    ) -> bool:
        """Whether a blurry frame shows what its partner shows, and no neighbour's shows it better.

        Args:
            kind: of the partner.
            parts: pictures of the blurry frame and its partner by path.
            others: pictures of the neighbours' partners by path.
            least: correlation that is expected.
        """
        (path, blur), (partner, picture) = parts.items()
        likeness = correlation(blur, picture)
        better = {other: correlation(blur, theirs) for other, theirs in others.items()}
        better = {k: v for k, v in better.items() if v > max(likeness + MORE_LIKE, SURELY_LIKE)}
        for other, found in better.items():
            self._faults[f"{kind} of a neighbour"].append(
                f"{path}: more like {other} (correlation {found:.2f}) than {partner} "
                f"({likeness:.2f}): frames or spike files are exchanged or copied; give each its "
                "own number"
            )
        if likeness < least and not better:
            self._faults[f"{kind} of another scene"].append(
                f"{path}: does not show the scene of {partner} (correlation {likeness:.2f}, "
                f"expected at least {least}): put frames and spikes of the same sequence and "
                "number side by side"
            )
        return likeness >= least and not better

    def _compare_ends(
        self, spikes: SpikeView, previous: FrameView | None, following: FrameView | None
    ) -> None:
        """Tell whether time runs backwards in an exposure; nothing tells that of a lone one."""
        ends = []  # the one beside a neighbour, the other one, and the neighbour's
        if previous and previous.spikes:
            ends.append((spikes.first, spikes.last, previous.spikes.last))
        if following and following.spikes:
            ends.append((spikes.last, spikes.first, following.spikes.first))
        by = [(correlation(near, beyond), correlation(far, beyond)) for near, far, beyond in ends]
        if by and all(far > max(near + BACKWARDS, MIN_END_LIKENESS) for near, far in by):
            least = min(far - near for near, far in by)
            self._faults["backwards"].append(
                f"{spikes.path}: its beginning is more like the frame after it and its end more "
                f"like the one before (by {least:.2f} at least, expected the opposite): time runs "
                "backwards in it; write its steps in the order they were recorded in"
            )


def _summary(faults: Sequence[str]) -> str:
    """The first fault of a kind, and of which files the same is true."""
    others = [fault.partition(": ")[0] for fault in faults[1:]]
    if len(faults) > _NAMED:
        others[_NAMED - 1 :] = [f"and {len(faults) - _NAMED} more"]
    return f"{faults[0]} (likewise {', '.join(others)})" if others else faults[0]


def _relative_detail(blur: PictureView, sharp: PictureView) -> float:
    """Fine detail of a blurry frame for its sharp one's, both as bright: lamps flicker."""
    brighter = blur.brightness / max(sharp.brightness, 1.0)
    return blur.detail / max(sharp.detail, 1e-9) / max(brighter, 1.0) ** 2


def _typical(values: Sequence[Grey]) -> tuple[Grey, Grey]:
    """Median of a sequence's frames and twice its standard error, as flickering light makes it."""
    center = np.median(values, axis=0)
    deviation = np.median(np.abs(values - center), axis=0)
    return center, 2 * STANDARD_ERROR * deviation / len(values) ** 0.5


def _size(colours: Grey) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(colours))))


def _colour_likeness(one: Grey, other: Grey) -> float:
    return correlation(np.ascontiguousarray(one), np.ascontiguousarray(other))


def _coarse_size(grey: NDArray[np.uint8]) -> tuple[int, int]:
    """Columns and rows of areas of :data:`COARSE` pixels."""
    height, width = grey.shape
    side = max(1, min(COARSE, min(height, width) // 8))
    return max(1, width // side), max(1, height // side)


def _coarse(grey: NDArray[np.uint8]) -> Grey:
    """Areas averaged, less the mean, and in large frames less what changes slowly."""
    small = cv2.resize(grey, _coarse_size(grey), interpolation=cv2.INTER_AREA).astype(np.float32)
    shared = cv2.blur(small, (_BOX, _BOX)) if min(small.shape) >= _WIDE else small.mean()
    return np.asarray(small - shared, np.float32)
