"""Check one sequence completely and write what it consists of: the ingest manifest.

All faults of a sequence are collected in the manifest; a sequence with faults goes no further than
the gate of :mod:`vrtspike.deblurring.data.gate.accept`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.deblurring.data.exposure import read_exposures
from vrtspike.deblurring.data.gate.alignment import (
    CENTER_PRECISION,
    align,
    center_tolerance,
    mismatch,
    order_fault,
)
from vrtspike.deblurring.data.gate.consistency import (
    Consistency,
    FrameView,
    SpikeView,
    gray,
    view_picture,
    view_spikes,
)
from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.deblurring.data.raw.layouts.files import Area, SequenceFiles
from vrtspike.deblurring.data.raw.layouts.registry import LAYOUTS
from vrtspike.deblurring.data.raw.numbering import find_jumps, frame_order
from vrtspike.deblurring.data.raw.recordings import Recording, find_recordings, sequence_sensor
from vrtspike.deblurring.data.raw.spikes import frame_scale, read_packed
from vrtspike.errors import DataError
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import file_entry


def ingest_sequence(
    root: str | Path,
    files: SequenceFiles,
    blur_dir: str,
    spike_size: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Check a sequence: names, pictures, spike files, and that spikes and frames belong together.

    Frames are read one at a time. A sequence without any spike file has no faults for that: whether
    the others have them, survey and gate look at.

    Args:
        root: the data set's folder.
        files: of the sequence.
        blur_dir: which blurry frames they hold, ``blur`` or ``blur_gamma``.
        spike_size: rows and columns of the sensor (columns as in the file, 416 for Vidar dumps
            with header columns); None takes the size in a ``config.yaml`` beside the spikes or
            that of an ``.npz`` file, else half the frames' size.

    Returns:
        The ingest manifest, but for ``source_version`` and ``recipe``; its list ``faults`` is empty
        where the sequence can be used.
    """
    base, layout = Path(root), LAYOUTS[files.layout]
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    checks = _Checks(base, files, [*files.faults, *_partners(files, blur_dir)])
    checks.faults += [
        f"frame numbers jump from {name} to {following}: frames are missing; put them back, or "
        "make two sequences of it"
        for name, following in find_jumps(names, layout.step, layout.numbers)[1]
    ]
    frames = checks.frames(names, spike_size)
    entries = [file_entry(base, path) for path in files.paths]
    for path in (base / entry["path"] for entry in entries if not entry["digest"]):
        # The checks have named it already, unless they had no use for it.
        if not any(fault.startswith(f"{path}: cannot be read") for fault in checks.faults):
            checks.faults.append(f"{path}: cannot be read")
    area, exposures = checks.area, [frame.spikes for frame in frames if frame.spikes]
    alignment, shifts = _judge_centers(exposures, has_table=bool(files.exposures))
    return {
        "schema": INGESTED.schema,
        "sequence": files.name,
        "split": files.split,
        "layout": files.layout,
        "spikes": files.has_spikes,
        "blur_dir": blur_dir,
        "files": entries,
        "rgb_size": list(checks.rgb_size) if checks.rgb_size else None,
        "spike_size": [area.rows, area.columns] if area else None,
        "spike_file": {"size": list(checks.file_size), "area": asdict(area)} if area else None,
        "frames": [asdict(frame) for frame in frames],
        "alignment": alignment,
        "faults": checks.faults + shifts,
    }


def _partners(files: SequenceFiles, blur_dir: str) -> list[str]:
    """Frames that lack their blurry, sharp or spike partner."""
    parts = {blur_dir: set(files.blur), "sharp": set(files.sharp)}
    if files.spikes and files.stream is None:
        parts["spike"] = set(files.spikes)
    everything = set().union(*parts.values())
    if not everything:
        return [f"{files.split}/{files.name}: no frames at all"]
    return [
        f"frame {name} is in {', '.join(part for part in parts if name in parts[part])} but has no "
        f"partner in {', '.join(part for part in parts if name not in parts[part])}"
        for name in sorted(everything, key=frame_order)
        if not all(name in present for present in parts.values())
    ]


@dataclass(frozen=True)
class Spikes:
    """The spikes of one frame, checked."""

    path: str
    """Their file, relative to the data set's root."""
    total: int
    """Steps of the whole file."""
    start: int
    """First step of the file with the shutter open."""
    steps: int
    """T, steps with the shutter open."""
    sharp: float
    """What the sharp frame shows, from ``start``."""
    t0: int
    """First step of the exposure, counted from the beginning of the sequence."""
    t1: int
    """The step after its last one: ``t0 + T``."""
    count: int
    """Spikes of all pixels in the exposure."""
    center: float | None
    """Where the sharp frame was found in the exposure; None where that cannot be said."""
    correlation: float | None


@dataclass(frozen=True)
class Frame:
    """One frame of a sequence; paths are relative to the data set's root."""

    name: str
    blur: str
    sharp: str
    spikes: Spikes | None
    """None in a sequence without spikes."""
    picture: str
    """Digest of the sharp frame's pixels, by which it is known again in another sequence; empty
    where it is of one colour."""


class _Checks:
    """The checks of one sequence's pictures and spike files.

    Attributes:
        faults: what is wrong, collected and not raised.
        rgb_size: rows and columns of the first readable frame; None where there is none.
        file_size: rows and columns in the spike files; more than the picture's in Vidar dumps.
        area: the part of them that is picture; None where there are no spikes, or none to be used.
    """

    def __init__(self, root: Path, files: SequenceFiles, faults: list[str]) -> None:
        self.root, self.files, self.faults = root, files, faults
        self.rgb_size: tuple[int, int] | None = None
        self.file_size = (0, 0)
        self.area: Area | None = None
        self._moved: list[str] = []
        """Faults of exposures that are shifted in space."""

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """A DataError in the body becomes a line in ``faults``, once."""
        try:
            yield
        except DataError as error:
            if str(error) not in self.faults:
                self.faults.append(str(error))

    def frames(self, names: Sequence[str], spike_size: tuple[int, int] | None) -> list[Frame]:
        """Check frames, in order; those that cannot be used are left out.

        Args:
            names: of the frames that are blurry and sharp.
            spike_size: see :func:`ingest_sequence`.
        """
        found: list[Frame] = []
        consistency = Consistency()
        recordings: dict[str, Recording] | None = None
        begin = 0
        for name in names:
            sharp, blur = (
                self._picture(part[name]) for part in (self.files.sharp, self.files.blur)
            )
            if recordings is None and self.rgb_size and self.files.has_spikes:
                recordings = {}
                with self._collect():
                    recordings = self._recordings(self.rgb_size, spike_size)
            recording = (recordings or {}).get(name)
            if recording and self.files.stream:
                begin = recording.exposure.start
            is_known = recording is not None or not self.files.has_spikes
            if is_known and sharp is not None and blur is not None:
                with self._collect():
                    frame, view = self._frame(name, recording, begin, blur, sharp)
                    found.append(frame)
                    consistency.add(view)
            begin += recording.exposure.steps if recording else 0
        # Where something moves, the exposure of another frame alone is shifted, too.
        compared = sum(frame.spikes is not None for frame in found)
        if 2 * len(self._moved) > compared:
            more = f" (likewise {len(self._moved)} of {compared} exposures)"
            self.faults.append(f"{self._moved[0]}{more}")
        self.faults += consistency.finish()
        return found

    def _picture(self, path: str) -> NDArray[np.uint8] | None:
        """A readable picture, grey, of the size of the sequence's first one, or None."""
        with self._collect():
            picture = read_rgb(self.root / path)
            height, width, _ = picture.shape
            self.rgb_size = self.rgb_size or (height, width)
            if self.rgb_size != (height, width):
                raise DataError(
                    f"{self.root / path}: {height} x {width} pixels, but the first frame has "
                    f"{self.rgb_size}"
                )
            return gray(picture)
        return None

    def _recordings(
        self, frame: tuple[int, int], given: tuple[int, int] | None
    ) -> dict[str, Recording]:
        """Where the spikes of each frame are, of those whose spikes can be read."""
        files, layout = self.files, LAYOUTS[self.files.layout]
        self.file_size, area = sequence_sensor(self.root, files, frame, given)
        frame_scale(frame, (area.rows, area.columns))
        self.area = area
        # A recording of the whole sequence is divided among all frames, with partners or without.
        frames = sorted(files.blur, key=frame_order)
        paths = dict.fromkeys(frames, files.stream) if files.stream else files.spikes
        wanted = {name: paths[name] for name in frames if name in paths}
        found, faults = find_recordings(self.root, wanted, self.file_size, layout, files.exposures)
        self.faults += faults
        if files.exposures:
            table = self.root / files.exposures
            if odd := sorted(set(read_exposures(table)) - {*files.blur, *files.sharp}):
                self.faults.append(
                    f"{table}: found {len(odd)} lines without a frame, the first of {odd[0]}; "
                    "remove them, or put the frames back"
                )
        return found

    def _frame(
        self,
        name: str,
        recording: Recording | None,
        t0: int,
        blur: NDArray[np.uint8],
        sharp: NDArray[np.uint8],
    ) -> tuple[Frame, FrameView]:
        """Check one frame whose exposure begins at step ``t0``, and what is to be compared of it.

        Raises:
            DataError: if its spikes cannot be read or compared.
        """
        paths = self.files.blur[name], self.files.sharp[name]
        spikes: Spikes | None = None
        seen: SpikeView | None = None
        if recording is not None:
            spikes, seen = self._spikes(recording, t0, paths[1], blur, sharp)
        blurry, view = (
            view_picture(str(self.root / path), picture)
            for path, picture in zip(paths, (blur, sharp), strict=True)
        )
        compared = FrameView(blurry, view, seen, has_fault=bool(spikes and not seen))
        return Frame(name, *paths, spikes, view.digest if view.detail > 0 else ""), compared

    def _spikes(
        self,
        recording: Recording,
        t0: int,
        frame: str,
        blur: NDArray[np.uint8],
        sharp: NDArray[np.uint8],
    ) -> tuple[Spikes, SpikeView | None]:
        """Check the spikes of a frame against its pictures.

        Returns:
            what was found, and what is to be compared of them: spikes with a fault of their own
            with nothing else.

        Raises:
            DataError: if they cannot be read or compared.
        """
        assert self.area is not None, "else there are no recordings"
        exposure, place = recording.exposure, self.root / recording.path
        start, steps = exposure.start, exposure.steps
        # Long exposures of large sensors take gigabytes once unpacked.
        spikes = read_packed(place, *self.file_size, start=start, count=steps, area=self.area)
        found = align(spikes, sharp)
        part = f" (steps {start} to {start + steps - 1})" if self.files.stream else ""
        seen = view_spikes(f"{place}{part}", spikes, blur)
        checked = Spikes(
            path=recording.path,
            total=recording.total,
            start=start,
            steps=steps,
            sharp=exposure.sharp - start,
            t0=t0,
            t1=t0 + steps,
            count=seen.total,
            center=round(found.center, 2) if found.locates else None,
            correlation=round(found.correlation, 4) if found.assessable else None,
        )
        fault = mismatch(found, place, frame, (self.area.rows, self.area.columns))
        if fault and found.is_moved:
            self._moved.append(fault)
            fault = None
        if fault := fault or order_fault(spikes, f"{place}{part}"):
            self.faults.append(fault)
        return checked, None if fault else seen


def _judge_centers(
    exposures: Sequence[Spikes], *, has_table: bool
) -> tuple[dict[str, float | None], list[str]]:
    """Compare the median centre with the expected one.

    Args:
        exposures: of the sequence's usable frames; none in a sequence without spikes.
        has_table: whether a table gives the exposures, which may then have any lengths.

    Returns:
        what is expected and was found, and the faults: a sequence that is shifted, and files that
        are cut or too long. A file may have another T than the others of its sequence if its sharp
        frame lies where that T says.
    """
    summary: dict[str, float | None] = dict.fromkeys(("expected", "median_center"))
    correlations = [found.correlation for found in exposures if found.correlation is not None]
    summary["median_correlation"] = round(median(correlations), 4) if correlations else None
    if not exposures:
        return summary, []
    (steps, expected), _ = Counter((e.steps, e.sharp) for e in exposures).most_common(1)[0]
    summary["expected"] = expected
    offsets = {each: each.center - each.sharp for each in exposures if each.center is not None}
    if not offsets:
        return summary, []
    offset = median(offsets.values())
    summary["median_center"] = round(expected + offset, 2)
    faults = [
        f"{each.path} holds {each.steps} spike frames, others {steps}, and its sharp frame lies at "
        f"step {each.center:.1f}, expected {each.sharp + offset:.1f}: the file is cut or too long; "
        "put the whole recording of this exposure there"
        for each, own in offsets.items()
        # Nearer to where a cut at either end would leave it, half the missing steps away.
        if not has_table
        and each.steps != steps
        and abs(own - offset) > min(CENTER_PRECISION, abs(steps - each.steps) / 4)
    ]
    if abs(offset) > (tolerance := center_tolerance(steps)):
        faults.append(
            f"the sharp frames lie at step {expected + offset:.1f} of {steps}, expected "
            f"{expected:.1f} +- {tolerance:.0f} (median of {len(offsets)} frames): frames and "
            "spike files are shifted against each other"
        )
    return summary, faults
