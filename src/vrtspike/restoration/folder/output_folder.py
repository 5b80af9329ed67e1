"""The output folder of a restoration: frames, videos, metrics, and the record of all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.raw.versions import input_version
from vrtspike.data.video import uncopied_streams
from vrtspike.io.files import write_json
from vrtspike.io.images import write_png
from vrtspike.restoration.checks.checked_clip import CheckedClip
from vrtspike.restoration.checks.spike_fit import doubts_message
from vrtspike.restoration.folder.frame_metrics import (
    MetricFunctions,
    measure_and_write_videos,
    worse_frames_by_metric,
)
from vrtspike.restoration.folder.opened_request import OpenedRequest
from vrtspike.restoration.folder.record import (
    RESTORE_RECORD,
    SCHEMA,
    ModelEntry,
    RecordIdentity,
    RestoreRecord,
    continued_record,
    read_earlier_record,
    recorded_results,
    remove_results,
    require_replaceable,
)
from vrtspike.restoration.inference.tiling import Tiling, tile_unit, tiling_overhead
from vrtspike.restoration.inputs.clip_frames import picture_files
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import list_faults, printable
from vrtspike.system.progress_bar import OpenProgress

NO_SPIKES = "none, the model takes none"

Note = Callable[[str], None]
"""Function called with a message for the user."""


class OutputFolder:
    """The folder that a restoration writes, with what an earlier call has written there.

    One that was interrupted is continued: frames that are there stay. Every frame is written as
    a whole or not at all. Nothing is removed or written before :meth:`begin`.

    Args:
        opened: the request and its inputs.
        model: ``name``, ``fingerprint`` and SHA-256 of the ``weights`` of the model.
        precision: type of its matrix products.
        note: called with notes and warnings for the user.

    Attributes:
        record: contents of ``restore.json``, after :meth:`begin`.
        missing: numbers of the frames to restore, after :meth:`begin`.

    Raises:
        ConfigError: if the folder holds something else, or results of another request that is not
            to be overwritten.
    """

    def __init__(
        self, opened: OpenedRequest, model: ModelEntry, precision: str, note: Note
    ) -> None:
        self._opened = opened
        self._note = note
        self._record_file = opened.request.output / RESTORE_RECORD
        self._identity = _identity(opened, model, precision)
        earlier = read_earlier_record(self._record_file)
        self._continued: dict[str, Any] = {}
        if not opened.request.overwrite:
            self._continued = continued_record(
                opened.request.output, self._identity, earlier, opened.request.tile
            )
        self._recorded = recorded_results(earlier)
        require_replaceable(opened.request.output, opened.results, self._recorded)
        self.record: RestoreRecord
        self.missing: Sequence[int] = ()

    @property
    def tiling(self) -> Tiling | None:
        """Tiling of the frames of an earlier call, which the others share; None without any."""
        return Tiling(**self._continued["tiling"]) if self._continued else None

    def begin(self, clip: CheckedClip, tiling: Tiling, device: str) -> None:
        """Remove results that are to be overwritten, note what the user should know, and record it.

        Args:
            clip: the checked clip.
            tiling: its tiling.
            device: type of the device that computes.
        """
        request = self._opened.request
        self.record = self._first_record(clip, tiling, device)
        if request.overwrite:
            # A record that cannot be written costs no earlier results.
            json.dumps(self.record, allow_nan=False)
            remove_results(request.output, self._recorded, self._note)
        if request.video or request.side_by_side:
            _note_lost_parts(clip.source, self._note)
        for message in clip.notes:
            self._note(message)
        files = self._opened.files
        self.missing = [number for number, path in enumerate(files) if not path.exists()]
        if self._continued:
            present = len(files) - len(self.missing)
            self._note(f"{present} of {len(files)} frames are there already, restored before")
        self._write_record()

    def _first_record(self, clip: CheckedClip, tiling: Tiling, device: str) -> RestoreRecord:
        """Return the record before any frame is restored."""
        request = self._opened.request
        kept = [] if request.overwrite else self._recorded
        source = clip.source
        shape = (len(source.names), *source.size)
        factor = tiling_overhead(shape, tiling, tile_unit(source.ratio.numerator))
        return {
            **self._identity,
            "paths": {
                "input": printable(str(request.frames)),
                "spikes": None if request.spikes is None else printable(str(request.spikes)),
                "sharp": None if request.sharp is None else printable(str(request.sharp)),
            },
            "size": list(source.size),
            "tiling": asdict(tiling),
            "recomputation": round(factor, 4),
            "device": device,
            "limits": clip.limit_check.contents(),
            "seconds_per_frame": self._continued.get("seconds_per_frame"),
            "written": sorted({*self._opened.results, *kept}),
            "doubts": self._continued.get("doubts", []),
            "doubtful": self._continued.get("doubtful", []),
        }

    def record_doubts(self, clip: CheckedClip) -> None:
        """Note and record spikes that do not fit the frames."""
        doubts = list(clip.doubts.values())
        if doubts:
            self._note(doubts_message(doubts))
        names = clip.source.names
        self.record["doubts"] = doubts
        self.record["doubtful"] = [names[number] for number in clip.doubts if number is not None]
        self._write_record()

    def write_frames(self, images: Iterable[NDArray[np.uint8] | NDArray[np.uint16]]) -> None:
        """Write the missing frames, at least one, which are restored while they are written.

        Args:
            images: one for each missing frame, in order: (H, W, 3) RGB.
        """
        files = self._opened.files
        started = time.monotonic()
        for number, image in zip(self.missing, images, strict=True):
            write_png(files[number], image)
        self.record["seconds_per_frame"] = (time.monotonic() - started) / len(self.missing)

    def measure(
        self, clip: CheckedClip, metric_functions: MetricFunctions, open_progress: OpenProgress
    ) -> None:
        """Measure all frames, write the videos, and record the metrics and verdicts.

        Args:
            clip: the checked clip.
            metric_functions: metrics of a frame alone, by their names.
            open_progress: opens the progress of this step.
        """
        # Metrics from spikes that do not fit the frames look good but are meaningless.
        restored = self._opened.restored_clip(with_spikes=not self.record["doubts"])
        self.record["frames"], misfits = measure_and_write_videos(
            self._opened.request, restored, metric_functions, open_progress
        )
        self.record["verdicts"] = worse_frames_by_metric(self.record["frames"], clip.limit_check)
        self._write_record()
        if misfits:
            title = "warning: sharp frames that do not fit their blurry ones"
            advice = (
                "Compare with the sharp frames of this clip, in the same colours and levels; "
                "metrics against others say nothing."
            )
            self._note(list_faults(title, misfits, advice, limit=10))

    def _write_record(self) -> None:
        write_json(self._record_file, self.record)


def _identity(opened: OpenedRequest, model: ModelEntry, precision: str) -> RecordIdentity:
    """Return entries of the record that are equal if frames of two calls belong together."""
    request = opened.request
    frames = picture_files(request.frames) if request.frames.is_dir() else [request.frames]
    origin = NO_SPIKES
    spike_files: Sequence[Path] = []
    sensor = None
    layout = None
    spikes = opened.source.spikes
    if spikes is not None:
        origin = spikes.origin
        spike_files = spikes.files
        layout = spikes.layout
        if spikes.sensor is not None:
            sensor = list(spikes.sensor.size)
    return {
        "schema": SCHEMA,
        "model": model,
        "blurry frames": input_version(frames),
        "spikes": {
            "from": origin,
            "version": input_version(spike_files),
            "layout": layout,
            "sensor": sensor,
        },
        "precision": precision,
    }


def _note_lost_parts(source: InputClip, note: Note) -> None:
    """Note the parts of a video file that its restored videos lack."""
    video = source.frames.video
    if video is None:
        return
    if not video.has_timestamps:
        note(
            f"warning: {video.path}: has no usable time stamps; the restored videos have "
            f"{float(video.rate):.4g} frames per second"
        )
    streams = uncopied_streams(video.path)
    if streams:
        title = f"warning: {video.path}: streams that the restored videos lack"
        advice = "An MP4 file takes sound such as AAC: convert it first, or add it afterwards."
        note(list_faults(title, streams, advice))
