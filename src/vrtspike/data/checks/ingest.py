"""Check one sequence completely and describe it in the ingest manifest.

All faults of a sequence are collected in the manifest; acceptance
(:mod:`vrtspike.data.checks.accept`) stops a sequence with faults.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.alignment import align, mismatch
from vrtspike.data.checks.consistency import Consistency
from vrtspike.data.checks.exposure_faults import (
    AlternativeLength,
    compare_lengths,
    length_faults,
    time_faults,
    widening,
)
from vrtspike.data.checks.frame_summaries import (
    FrameSummary,
    SpikeSummary,
    summarize_image,
    summarize_spikes,
    to_gray,
)
from vrtspike.data.checks.step_order import disorder, order_fault
from vrtspike.data.manifests import (
    INGESTED,
    CheckedSequence,
    FrameEntry,
    SpikeFileEntry,
    SpikesEntry,
)
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import LAYOUTS, frame_faults
from vrtspike.data.raw.numbering import frame_order
from vrtspike.data.raw.recordings import Recording, find_recordings, sequence_sensor
from vrtspike.data.raw.spikes import Sensor, size_ratio
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import file_entry
from vrtspike.system.errors import DataError


def ingest_sequence(
    root: str | Path, files: SequenceFiles, spike_size: tuple[int, int] | None = None
) -> CheckedSequence:
    """Check a sequence: names, pictures, spike files, and that spikes and frames belong together.

    Frames are read one at a time. A sequence without any spike file has no faults for that; survey
    and acceptance compare it with the others.

    Args:
        root: the data set's folder.
        files: files of the sequence.
        spike_size: rows and columns of the sensor (columns as in the file, 416 for Vidar dumps
            with header columns); None takes the size in a ``config.yaml`` next to the spikes or
            that of an ``.npz`` file, else half the frames' size.

    Returns:
        The ingest manifest, but for ``source_version`` and ``recipe``; its list ``faults`` is empty
        if the sequence can be used. ``frames`` holds the readable frames.
    """
    base = Path(root)
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    checks = _Checks(base, files)
    checks.faults += [*files.faults, *frame_faults(files)]
    checks.check(names, spike_size)
    spike_file: SpikeFileEntry | None = None
    sensor_size = None
    if checks.sensor is not None:
        spike_file = {"size": list(checks.sensor.size), "area": asdict(checks.sensor.area)}
        sensor_size = list(checks.sensor.area.size)
    return {
        "schema": INGESTED.schema,
        "sequence": files.name,
        "split": files.split,
        "layout": files.layout,
        "spikes": files.has_spikes,
        "blur_dir": files.blur_dir,
        "files": [file_entry(base, path) for path in files.paths],
        "rgb_size": list(checks.rgb_size) if checks.rgb_size else None,
        "spike_size": sensor_size,
        "spike_file": spike_file,
        "frames": checks.frames,
        # Faults of files and sizes that all frames share are reported once.
        "faults": list(dict.fromkeys(checks.faults)),
    }


class _Checks:
    """The checks of one sequence's pictures and spike files.

    Attributes:
        faults: collected and not raised.
        frames: entries of the manifest; paths are relative to the data set's root.
        rgb_size: rows and columns of the first readable frame; None if there is none.
        sensor: sensor of the spike files; None if there are no usable spikes.
    """

    def __init__(self, root: Path, files: SequenceFiles) -> None:
        self.root = root
        self.files = files
        self.faults: list[str] = []
        self.frames: list[FrameEntry] = []
        self.rgb_size: tuple[int, int] | None = None
        self.sensor: Sensor | None = None
        self._consistency = Consistency()
        self._shifted: list[str] = []
        """Faults of exposures that are shifted in space."""
        self._lengths: list[AlternativeLength] = []
        """Other lengths of the exposures in which something moves."""

    @contextlib.contextmanager
    def _collect(self) -> Iterator[None]:
        """Turn a DataError of the body into a line of ``faults``."""
        try:
            yield
        except DataError as error:
            self.faults.append(str(error))

    def check(self, names: Sequence[str], spike_size: tuple[int, int] | None) -> None:
        """Check frames, in order; unusable ones are left out.

        Args:
            names: names of the frames that are blurry and sharp.
            spike_size: see :func:`ingest_sequence`.
        """
        self.rgb_size = self._find_size(names)
        recordings: dict[str, Recording] = {}
        if self.rgb_size and self.files.has_spikes:
            with self._collect():
                recordings = self._recordings(self.rgb_size, spike_size)
        first_step = 0
        for name in names:
            recording = recordings.get(name)
            if recording and self.files.stream:
                first_step = recording.exposure.start
            with self._collect():
                self._check_frame(name, recording, first_step)
            if recording:
                first_step += recording.exposure.steps
        # If something moves, the exposure of another frame is shifted, too.
        compared = sum(frame["spikes"] is not None for frame in self.frames)
        if 2 * len(self._shifted) > compared:
            self.faults.append(f"{self._shifted[0]} ({len(self._shifted)} of {compared} exposures)")
        self.faults += self._consistency.finish()
        self._report_times()

    def _find_size(self, names: Sequence[str]) -> tuple[int, int] | None:
        """Return rows and columns of the first readable frame; None if there is none."""
        for name in names:
            for path in (self.files.sharp[name], self.files.blur[name]):
                with contextlib.suppress(DataError):
                    height, width, _ = read_rgb(self.root / path).shape
                    return height, width
        return None

    def _report_times(self) -> None:
        """Report exposures that are shifted in time or have another length."""
        exposures = [frame["spikes"] for frame in self.frames if frame["spikes"]]
        faults = time_faults(exposures, has_table=self.files.exposures is not None)
        if exposures and not faults:
            # Shifted exposures fit better if they are longer, because they then reach the right
            # steps.
            faults = length_faults(str(self.root / exposures[0]["path"]), self._lengths)
        self.faults += faults

    def _recordings(
        self, frame: tuple[int, int], spike_size: tuple[int, int] | None
    ) -> dict[str, Recording]:
        """Return the recordings of the frames whose spikes can be read, by name.

        Args:
            frame: rows and columns of a frame.
            spike_size: rows and columns of the sensor; None finds them.

        Raises:
            DataError: if the sensor is unknown or does not fit the frames.
        """
        files = self.files
        sensor = sequence_sensor(self.root, files, frame, spike_size)
        size_ratio(frame, sensor.area.size)
        self.sensor = sensor
        recordings, faults = find_recordings(
            self.root,
            files.spikes_by_frame,
            sensor.size,
            LAYOUTS[files.layout],
            files.exposures,
            {*files.blur, *files.sharp},
        )
        self.faults += faults
        return recordings

    def _check_frame(self, name: str, recording: Recording | None, first_step: int) -> None:
        """Check one frame.

        Args:
            name: name of the frame.
            recording: its spikes; None if they cannot be read or do not exist.
            first_step: step of the sequence at which its exposure begins.

        Raises:
            DataError: if its spikes cannot be read or compared.
        """
        blur_path = self.files.blur[name]
        sharp_path = self.files.sharp[name]
        blur = self._read_picture(blur_path)
        sharp = self._read_picture(sharp_path)
        if blur is None or sharp is None or (self.files.has_spikes and recording is None):
            return
        blur_view = summarize_image(str(self.root / blur_path), blur)
        sharp_view = summarize_image(str(self.root / sharp_path), sharp)
        entry = None
        spike_view = None
        fault = None
        if recording is not None and self.sensor is not None:
            entry, spike_view, fault = self._check_spikes(
                recording, self.sensor, first_step, blur, sharp, sharp_path
            )
        self.frames.append(
            {
                "name": name,
                "blur": blur_path,
                "sharp": sharp_path,
                "spikes": entry,
                # The digest identifies the frame in another sequence, unless it is of one colour.
                "picture": sharp_view.digest if sharp_view.detail > 0 else "",
                "thumbnail": sharp_view.thumbnail.tobytes().hex(),
            }
        )
        if fault:
            self.faults.append(fault)
        else:
            self._consistency.add(FrameSummary(blur_view, sharp_view, spike_view))

    def _check_spikes(
        self,
        recording: Recording,
        sensor: Sensor,
        first_step: int,
        blur: NDArray[np.uint8],
        sharp: NDArray[np.uint8],
        sharp_path: str,
    ) -> tuple[SpikesEntry, SpikeSummary, str | None]:
        """Compare the spikes of a frame with its pictures.

        Args:
            recording: file and exposure of the spikes.
            sensor: sensor of their file.
            first_step: step of the sequence at which the exposure begins.
            blur: the blurry frame, RGB.
            sharp: the sharp frame, RGB.
            sharp_path: its path, for messages.

        Returns:
            the entry of the manifest, the summary of the spikes, and their fault.

        Raises:
            DataError: if the spikes cannot be read or compared.
        """
        file = self.root / recording.path
        exposure = recording.exposure
        location = str(file)
        if self.files.stream:
            location = f"{file} (steps {exposure.start} to {exposure.stop - 1})"
        # Long exposures of large sensors take gigabytes once unpacked.
        spikes = sensor.read(file, exposure.start, exposure.steps)
        blur_gray = to_gray(blur)
        alignment = align(spikes, to_gray(sharp))
        view = summarize_spikes(location, spikes, blur_gray)
        fault = mismatch(alignment, location, sharp_path, spikes.shape[1:])
        if fault and alignment.is_moved:
            self._shifted.append(fault)
            fault = None
        fault = fault or order_fault(disorder(spikes), location)
        if alignment.locates:
            sides = []
            steps = widening(exposure.start, exposure.steps, recording.total)
            if steps:
                sides.append(sensor.read(file, exposure.start - steps, steps))
                sides.append(sensor.read(file, exposure.stop, steps))
            self._lengths += compare_lengths(spikes, blur_gray, sides)
        entry: SpikesEntry = {
            "path": recording.path,
            "total": recording.total,
            "start": exposure.start,
            "steps": exposure.steps,
            "sharp": exposure.sharp - exposure.start,
            # In the whole sequence, where the exposures of files of their own follow each other.
            "t0": first_step,
            "t1": first_step + exposure.steps,
            "count": view.total,
            # The value is null if the spikes allow no statement.
            "center": round(alignment.center, 2) if alignment.locates else None,
            "correlation": round(alignment.correlation, 4) if alignment.assessable else None,
        }
        return entry, view, fault

    def _read_picture(self, path: str) -> NDArray[np.uint8] | None:
        """Read a picture, RGB.

        Returns:
            None, with a fault, if it cannot be read or has another size than the first one.
        """
        try:
            picture = read_rgb(self.root / path)
        except DataError as error:
            self.faults.append(str(error))
            return None
        height, width, _ = picture.shape
        if self.rgb_size != (height, width):
            self.faults.append(
                f"{self.root / path}: {height} x {width} pixels, but the first frame has "
                f"{self.rgb_size}"
            )
            return None
        return picture
