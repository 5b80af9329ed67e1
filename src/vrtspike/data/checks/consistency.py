"""Check that the blurry frame, the sharp frame and the spikes of one number belong together.

A blurry frame and the mean of its exposure's spikes measure the same light, so they look alike even
if the scene moves; at low resolution the sharp frame looks like both. A frame or spike file of
another scene or of a neighbouring frame, or spikes written backwards in time, have a low
correlation.

The numbers beside the limits were measured on the generated data of the demo, on frames of GoPro
and on recorded spikes of Spk-GoPro and S-REDS. ``tests/data/checks/test_consistency.py`` repeats
the checks on samples of all of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from vrtspike.data.checks.frame_summaries import FrameSummary, Gray, ImageSummary, SpikeSummary
from vrtspike.data.checks.levels import MAX_FLAT, LevelComparison
from vrtspike.data.checks.similarity import correlation

MIN_COARSE_LIKENESS = 0.5
"""Minimum correlation of blurry and sharp frame, both coarse. Correct pairs: GoPro 0.99,
generated data 0.86 at least; frames of other sequences: 0.0 in the mean, GoPro at most 0.03.
Sequences with spikes are judged by the spikes instead, which resemble the blurry frame however far
things move."""
MAX_DETAIL = 1.2
"""Maximum fine detail (energy of the Laplacian) of a blurry frame over that of its sharp frame:
0.09 (GoPro), 0.05 to 0.69 (generated); averaging frames cannot make more of it."""
MIN_SPIKE_LIKENESS = 0.5
"""Minimum band-passed correlation of a blurry frame with the mean of its spikes: 0.93 for the sharp
frame of a real exposure, 0.99 for simulated blurry frames; other sequences at most 0.4."""
MIN_NEIGHBOR_LEAD = 0.03
"""Minimum lead of a neighbour's correlation over that of the partner for the neighbour to be called
the right one. In correct data the partner fits better by 0.004 to 1.5."""
MIN_NEIGHBOR_LIKENESS = 0.8
"""Minimum correlation with a neighbour's picture for the neighbour to be called the right one."""
MIN_REVERSAL_LEAD = 0.1
"""Minimum lead of the wrong end of an exposure (a third of it) over the right end, in correlation
with the next or previous exposure, for time to run backwards. Correct data: worse by 0.15 to 0.74
in real spikes, by 0.008 to 0.9 in generated ones; in the same files reversed, better by as much.
The margin finds 9 in 10 reversed exposures of the demo data; the others hardly move."""
MIN_END_LIKENESS = 0.3
"""Minimum correlation of that end: a scene that moves by a whole picture fits nothing."""
MIN_SCENE = 0.03
"""Contrast of the rates of spikes (band-passed, 0 to 1) from which they show a scene; counting
noise over 88 steps leaves less than 0.01."""
MIN_COARSE_SCENE = 4.0
"""Standard deviation of a coarse picture, of 255, from which it shows a scene."""

_MIN_CONTRAST = 2.0
"""Standard deviation, of 255, below which coarse pictures are not compared."""
_MIN_DETAIL = 5.0
"""Energy of the Laplacian, of 255 squared, below which there is no detail to compare."""
_MAX_NAMED = 4
"""Maximum files that are named for one kind of fault."""


class Consistency:
    """The comparison of a sequence's frames, given in order; three are held at a time."""

    def __init__(self) -> None:
        self._window: deque[FrameSummary | None] = deque([None, None], maxlen=3)
        """The previous frame, the one that is compared, and the next."""
        self._contents: dict[tuple[str, str], tuple[str, str]] = {}
        """Path of the first file and its partner, by kind and digest."""
        self._faults = defaultdict[str, list[str]](list)
        """Faults by kind."""
        self._levels = LevelComparison()

    def add(self, view: FrameSummary) -> None:
        """Add the next frame."""
        blur, sharp, spikes = view
        self._report_copy("sharp frames", blur, sharp.digest)
        self._report_copy("blurry frames", sharp, blur.digest)
        if spikes is not None and spikes.total:
            self._report_copy("exposures", spikes, spikes.path)
        self._report_flat(view.blur, view.sharp, view.spikes)
        self._report_flat(view.sharp, view.blur, view.spikes)
        fault = self._levels.add(blur, sharp)
        if fault is not None:
            self._faults["colours"].append(fault)
        self._advance(view)

    def finish(self) -> list[str]:
        """Return the faults of all frames, those of one kind in one line."""
        self._advance(None)
        self._report_levels()
        return [_summary(faults) for faults in self._faults.values()]

    def _report_flat(
        self, picture: ImageSummary, partner: ImageSummary, spikes: SpikeSummary | None
    ) -> None:
        """Report a picture of one colour whose spikes or partner show a scene."""
        if picture.contrast > MAX_FLAT:
            return
        if spikes is not None and spikes.scene >= MIN_SCENE:
            scene = spikes.path
        elif partner.coarse.std() >= MIN_COARSE_SCENE:
            scene = partner.path
        else:
            return
        self._faults["flat"].append(
            f"{picture.path}: a picture of one colour (standard deviation "
            f"{picture.contrast:.1f} of 255), but {scene} shows a scene: put the right "
            "picture there"
        )

    def _report_levels(self) -> None:
        """Report a sequence whose blurry and sharp frames differ in colours or levels."""
        # Darker sharp frames have less detail, too; other faults are more specific than levels.
        if set(self._faults) - {"detail"}:
            return
        colors = self._levels.color_fault()
        brightness = self._levels.brightness_fault()
        contrast = self._levels.contrast_fault()
        if colors is not None:
            self._faults["colours"].append(colors)
        elif brightness is not None:
            self._faults.pop("detail", None)
            self._faults["levels"].append(brightness)
        elif contrast is not None and not self._faults:
            self._faults["levels"].append(contrast)

    def _report_copy(self, partners: str, view: ImageSummary | SpikeSummary, partner: str) -> None:
        """Report contents that occur twice with different partners."""
        path, first_partner = self._contents.setdefault(
            (partners, view.digest), (view.path, partner)
        )
        if partner != first_partner:
            self._faults["copied"].append(
                f"{view.path}: the same contents as {path}, but their {partners} are different "
                "ones: one was copied over the other; put the original back"
            )

    def _advance(self, following: FrameSummary | None) -> None:
        """Compare the last frame with its neighbours, once the following one is known."""
        self._window.append(following)
        previous, view, _ = self._window
        if view is None:
            return
        neighbors = [frame for frame in (previous, following) if frame is not None]
        min_likeness = MIN_COARSE_LIKENESS
        blur, sharp, spikes = view
        if self._spikes_fit(blur, spikes, neighbors):
            # If things move far, spikes are the better evidence of the same scene.
            min_likeness = -1.0
            if spikes is not None and spikes.has_clear_ends:
                self._report_reversal(spikes, previous, following)
        self._compare_pictures(blur, sharp, neighbors, min_likeness)

    def _spikes_fit(
        self, blur: ImageSummary, spikes: SpikeSummary | None, neighbors: Sequence[FrameSummary]
    ) -> bool:
        """Compare a blurry frame with its spikes and those of its neighbours.

        Returns:
            true if the spikes show the same scene; false if not, or if the data do not allow a
            verdict.
        """
        if spikes is None or not spikes.assessable:
            return False
        others = {
            neighbor.spikes.path: neighbor.spikes.mean
            for neighbor in neighbors
            if neighbor.spikes is not None
        }
        parts = {blur.path: spikes.blur, spikes.path: spikes.mean}
        return self._fits("spikes", parts, others, MIN_SPIKE_LIKENESS)

    def _compare_pictures(
        self,
        blur: ImageSummary,
        sharp: ImageSummary,
        neighbors: Sequence[FrameSummary],
        min_likeness: float,
    ) -> None:
        """Compare a blurry frame with its sharp frame and those of its neighbours."""
        if blur.digest == sharp.digest:
            # A noiseless simulation blurs nothing if nothing moves.
            if all(neighbor.sharp.digest != sharp.digest for neighbor in neighbors):
                self._faults["equal"].append(
                    f"{blur.path}: the same picture as {sharp.path}, expected the blurry one: put "
                    "it there"
                )
            return
        if min(blur.coarse.std(), sharp.coarse.std()) < _MIN_CONTRAST:
            return
        others = {neighbor.sharp.path: neighbor.sharp.coarse for neighbor in neighbors}
        parts = {blur.path: blur.coarse, sharp.path: sharp.coarse}
        if not self._fits("sharp frame", parts, others, min_likeness):
            return
        # Detail is compared at equal brightness, because lamps flicker.
        brighter = max(blur.brightness / max(sharp.brightness, 1.0), 1.0)
        detail = blur.detail / max(sharp.detail, 1e-9) / brighter**2
        if blur.detail > _MIN_DETAIL and detail > MAX_DETAIL:
            self._faults["detail"].append(
                f"{blur.path}: {detail:.1f} times the fine detail of {sharp.path}, "
                f"expected less than {MAX_DETAIL}: blurry and sharp frames are exchanged; "
                "exchange their folders or files"
            )

    def _fits(
        self, kind: str, parts: Mapping[str, Gray], others: Mapping[str, Gray], min_likeness: float
    ) -> bool:
        """Return whether a blurry frame fits its partner, and report it if it does not.

        A frame fits if the correlation with its partner is high enough and no neighbour's partner
        fits clearly better.

        Args:
            kind: kind of the partner.
            parts: pictures of the blurry frame and its partner by path.
            others: pictures of the neighbours' partners by path.
            min_likeness: minimum correlation of blurry frame and partner.
        """
        (path, blur), (partner, picture) = parts.items()
        likeness = correlation(blur, picture)
        threshold = max(likeness + MIN_NEIGHBOR_LEAD, MIN_NEIGHBOR_LIKENESS)
        fits = likeness >= min_likeness
        has_better = False
        for other, other_picture in others.items():
            other_likeness = correlation(blur, other_picture)
            if other_likeness <= threshold:
                continue
            has_better = True
            self._faults[f"{kind} of a neighbour"].append(
                f"{path}: more like {other} (correlation {other_likeness:.2f}) than {partner} "
                f"({likeness:.2f}): frames or spike files are exchanged or copied; give each its "
                "own number"
            )
        if not fits and not has_better:
            self._faults[f"{kind} of another scene"].append(
                f"{path}: does not show the scene of {partner} (correlation {likeness:.2f}, "
                f"expected at least {min_likeness}): put frames and spikes of the same sequence "
                "and number side by side"
            )
        return fits and not has_better

    def _report_reversal(
        self, spikes: SpikeSummary, previous: FrameSummary | None, following: FrameSummary | None
    ) -> None:
        """Report an exposure in which time runs backwards.

        Without neighbours the direction cannot be determined.
        """
        # Lead of the wrong end for each neighbour; None if no end fits clearly.
        leads = []
        if previous is not None and previous.spikes is not None:
            leads.append(_reversal_lead(spikes.first, spikes.last, previous.spikes.last))
        if following is not None and following.spikes is not None:
            leads.append(_reversal_lead(spikes.last, spikes.first, following.spikes.first))
        clear_leads = [lead for lead in leads if lead is not None]
        if clear_leads and len(clear_leads) == len(leads):
            self._faults["backwards"].append(
                f"{spikes.path}: its beginning is more like the frame after it and its end more "
                f"like the one before (by {min(clear_leads):.2f} at least, expected the opposite): "
                "time runs backwards in it; write its steps in the order they were recorded in"
            )


def _reversal_lead(near: Gray, far: Gray, neighbor: Gray) -> float | None:
    """Return the lead in correlation of the far end of an exposure over its near end.

    Args:
        near: the end next to the neighbour.
        far: the end away from the neighbour.
        neighbor: the neighbour's end next to the exposure.

    Returns:
        None if the far end does not fit clearly better.
    """
    near_likeness = correlation(near, neighbor)
    far_likeness = correlation(far, neighbor)
    if far_likeness <= max(near_likeness + MIN_REVERSAL_LEAD, MIN_END_LIKENESS):
        return None
    return far_likeness - near_likeness


def _summary(faults: Sequence[str]) -> str:
    """Return the first fault of a kind, and the other files with the same fault."""
    others = [fault.partition(": ")[0] for fault in faults[1:]]
    if not others:
        return faults[0]
    if len(faults) > _MAX_NAMED:
        others = [*others[: _MAX_NAMED - 1], f"and {len(faults) - _MAX_NAMED} more"]
    return f"{faults[0]} (likewise {', '.join(others)})"
