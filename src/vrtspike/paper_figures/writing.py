"""Write the figures that results have data for, as PDF and PNG, with their numbers as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from vrtspike.io.files import atomic_write_text
from vrtspike.paper_figures.crop_boxes import CropSpec
from vrtspike.paper_figures.crop_choice import choose_crops
from vrtspike.paper_figures.crops import Cell, CropRow, compared_cell, crop_table, draw_crops
from vrtspike.paper_figures.gain_over_motion import draw_gain_over_motion, gain_bins
from vrtspike.paper_figures.names import FIGURE_NAMES
from vrtspike.paper_figures.psnr_over_frames import draw_psnr_over_frames, psnr_table
from vrtspike.paper_figures.quality_over_cost import cost_table, draw_quality_over_cost
from vrtspike.paper_figures.results import ComparedResults, ModelResult
from vrtspike.paper_figures.style import FIGURE_SUFFIXES, FontName
from vrtspike.paper_figures.xt import draw_xt, slice_of, slice_table
from vrtspike.system.errors import ConfigError, list_faults
from vrtspike.system.progress_bar import OpenProgress

BLURRY = "blurry"
SPIKES = "spikes"
SHARP = "sharp"

MAX_PANELS = 12
"""Maximum sequences in the figure of PSNR over frames."""
MIN_MOTION_FRAMES = 2
MIN_SLICE_FRAMES = 2


class FigureSkipped(Exception):
    """The reason why a figure is not written: there are no data for it."""


@dataclass(frozen=True)
class FigureRequest:
    """The figures to write.

    Attributes:
        output: folder.
        names: names of the figures, from ``FIGURE_NAMES``; empty for all that there are data
            for.
        crops: the crops; empty for those where models differ most.
        sequences: sequences of the figures, except those that ``crops`` and ``row`` name; empty for
            all.
        row: sequence and row of the x-t slices; None for the middle of the first crop.
        error_maps: draw error maps below the crops.
        font: ``sans`` or ``serif``.
    """

    output: Path
    names: Sequence[str] = ()
    crops: Sequence[CropSpec] = ()
    sequences: Sequence[str] = ()
    row: tuple[str, int] | None = None
    error_maps: bool = False
    font: FontName = "sans"


class FigureWriter:
    """Writes figures of results.

    Args:
        models: at least one, with different labels.
        request: options of the figures.
        open_progress: opens the progress of a piece of work.
        note: called with a line for the user.
    """

    def __init__(
        self,
        models: Sequence[ModelResult],
        request: FigureRequest,
        open_progress: OpenProgress,
        note: Callable[[str], None] = print,
    ) -> None:
        self.results = ComparedResults(models)
        self.request = request
        self.progress = open_progress
        self.note = note

    def write(self) -> None:
        """Write the figures, and a line for each.

        Raises:
            ConfigError: if an option names a sequence, frame or part of a frame that is not there,
                or there are no data for a figure that the request names.
            DataError: if results of different frames would be compared.
        """
        self._check_request()
        for model in self.results.models:
            for line in model.notes:
                self.note(line)
        for name in self.request.names or FIGURE_NAMES:
            write_figure: Callable[[Path], None] = getattr(self, name)
            try:
                write_figure(self.request.output / name)
            except FigureSkipped as reason:
                if self.request.names:
                    raise ConfigError(f"--only {name}: left out, {reason}") from reason
                self.note(f"{name}: left out, {reason}")
            else:
                files = ", ".join(f"{name}{suffix}" for suffix in (*FIGURE_SUFFIXES, ".csv"))
                self.note(f"{name}: {self.request.output}/{files}")

    def _check_request(self) -> None:
        """Reject options that name something else than the results hold, before any work."""
        results = self.results
        for crop in self.request.crops:
            results.require_frame(crop.sequence, crop.frame, crop.text)
            crop.require_inside(results.blurry(crop.sequence, crop.frame).shape)
        measured = [str(name) for name in dict.fromkeys(self.frame_psnr["sequence"])]
        for sequence in self.request.sequences:
            if sequence not in measured:
                results.require_sequence(sequence, f"--sequence {sequence}")
        if self.request.row is not None:
            sequence, row = self.request.row
            option = f"--row {sequence}:{row}"
            results.require_sequence(sequence, option)
            frames = results.frames(sequence)
            if not frames:
                raise ConfigError(
                    f"{option}: {_no_common_frames(results.models)} in this sequence: name another "
                    "one, or leave --row out"
                )
            height = results.blurry(sequence, frames[0]).shape[0]
            if row >= height:
                raise ConfigError(
                    f"{option}: found row {row}, outside of the frames of {height} rows: give one "
                    f"from 0 to {height - 1}"
                )

    @cached_property
    def frame_psnr(self) -> pd.DataFrame:
        """The PSNR of every frame and model, of the sequences of the request."""
        table = self.results.frame_psnr()
        if self.request.sequences:
            table = table[table["sequence"].isin(self.request.sequences)]
        return table

    @cached_property
    def crop_specs(self) -> list[CropSpec]:
        """The crops: those of the request, or one in each of some sequences."""
        if self.request.crops:
            return list(self.request.crops)
        return choose_crops(self.results, self.frame_psnr, self.request.sequences)

    def crops(self, stem: Path) -> None:
        """Write the grid of crops.

        Raises:
            ConfigError: if error maps are wanted of frames without a sharp one.
            FigureSkipped: if there is none.
        """
        if not self.crop_specs:
            raise FigureSkipped(_no_common_frames(self.results.models))
        if self.request.error_maps:
            self._require_sharp_frames()
        rows = [self._crop_row(spec) for spec in self.crop_specs]
        _write_table(stem, crop_table(rows))
        draw_crops(stem, rows, self.request.font, error_maps=self.request.error_maps)

    def _require_sharp_frames(self) -> None:
        """Reject error maps of crops without a sharp frame.

        Raises:
            ConfigError: naming their frames.
        """
        missing = [
            f"{spec.sequence}/{spec.frame}"
            for spec in self.crop_specs
            if self.results.sharp(spec.sequence, spec.frame) is None
        ]
        if missing:
            title = "--error-maps: crops without a sharp frame to measure the error against"
            advice = (
                "Give the folder of the sharp frames (--sharp) or other crops, or leave "
                "--error-maps out."
            )
            raise ConfigError(list_faults(title, missing, advice))

    def _crop_row(self, spec: CropSpec) -> CropRow:
        """Return the crops of one place."""
        sequence = spec.sequence
        frame = spec.frame
        blurry = self.results.blurry(sequence, frame)
        sharp = self.results.sharp(sequence, frame)
        cells = [compared_cell(BLURRY, blurry, sharp, spec.box)]
        spikes = self.results.models[0].clips[sequence].spikes(frame)
        if spikes is not None:
            cells.append(Cell(SPIKES, spec.box.crop(_enlarge(spikes, blurry.shape))))
        restored = self.results.restored(sequence, frame)
        for model, image in zip(self.results.models, restored, strict=True):
            cells.append(compared_cell(model.label, image, sharp, spec.box))
        if sharp is not None:
            cells.append(Cell(SHARP, spec.box.crop(sharp)))
        whole = blurry if sharp is None else sharp
        return CropRow(sequence, frame, whole, spec.box, cells)

    def psnr_over_frames(self, stem: Path) -> None:
        """Write PSNR over the frame number.

        Raises:
            FigureSkipped: if no PSNR was measured.
        """
        if not len(self.frame_psnr):
            raise FigureSkipped(_NO_PSNR)
        table = psnr_table(self.frame_psnr)
        sequences = [str(name) for name in dict.fromkeys(table["sequence"])]
        if len(sequences) > MAX_PANELS:
            self.note(
                f"psnr_over_frames: the first {MAX_PANELS} of {len(sequences)} sequences are "
                "drawn; choose others with --sequence"
            )
        _write_table(stem, table)
        draw_psnr_over_frames(stem, table, sequences[:MAX_PANELS], self.request.font)

    def gain_over_motion(self, stem: Path) -> None:
        """Write the gain over the motion.

        Raises:
            FigureSkipped: if one of them is not known.
        """
        if not len(self.frame_psnr):
            raise FigureSkipped(_NO_PSNR)
        motion = self._motion()
        points = self.frame_psnr.merge(motion, on=["sequence", "frame"])
        points = points[np.isfinite(points["gain"]) & np.isfinite(points["motion"])]
        if len(points) < MIN_MOTION_FRAMES * self.frame_psnr["model"].nunique():
            raise FigureSkipped(
                "the motion is measured between spikes of an exposure, and too few frames of these "
                "results have recorded spikes at hand"
            )
        bins = gain_bins(points)
        columns = ["sequence", "frame", "model", "motion", "psnr_blur", "psnr", "gain"]
        _write_table(stem, points[columns])
        _write_table(stem.with_name(f"{stem.name}_bins"), bins)
        draw_gain_over_motion(stem, points, bins, self.request.font)

    def _motion(self) -> pd.DataFrame:
        """Return the length of motion of every measured frame whose spikes can be read."""
        motions = []
        for sequence, rows in self.frame_psnr.groupby("sequence", sort=False):
            clips = [model.clips.get(str(sequence)) for model in self.results.models]
            recorded = [clip for clip in clips if clip is not None and clip.has_recorded_spikes]
            if not recorded:
                continue
            frames = [str(name) for name in dict.fromkeys(rows["frame"])]
            with self.progress(f"motion in {sequence}") as show:
                for done, frame in enumerate(frames, start=1):
                    motions.append((sequence, frame, recorded[0].recorded(frame).motion()))
                    show(done, len(frames))
        table = pd.DataFrame(motions, columns=["sequence", "frame", "motion"])
        # An empty column has no type of its own.
        return table.astype({"motion": float})

    def xt(self, stem: Path) -> None:
        """Write x-t slices.

        Raises:
            FigureSkipped: if there are none.
        """
        sequence, row = self._slice_row()
        frames = self.results.frames(sequence)
        if not self.results.is_complete(sequence) or len(frames) < MIN_SLICE_FRAMES:
            raise FigureSkipped(
                f"not all frames of sequence {sequence} are at hand, or it has a single one"
            )
        blurry = (self.results.blurry(sequence, frame) for frame in frames)
        slices = {BLURRY: slice_of(blurry, row)}
        for model in self.results.models:
            slices[model.label] = slice_of(model.clips[sequence].restored(frames), row)
        middle = frames[len(frames) // 2]
        whole = self.results.blurry(sequence, middle)
        sharp = self.results.sharp(sequence, middle)
        if sharp is not None:
            truth = (self.results.sharp(sequence, frame) for frame in frames)
            slices[SHARP] = slice_of((image for image in truth if image is not None), row)
            whole = sharp
        table = slice_table(slices, None if sharp is None else SHARP)
        table.insert(0, "row", row)
        table.insert(0, "sequence", sequence)
        _write_table(stem, table)
        title = f"{sequence}, row {row}"
        draw_xt(stem, title, whole, row, slices, self.request.font)

    def _slice_row(self) -> tuple[str, int]:
        """Return sequence and row of the slices: as requested, or the middle of the first crop.

        Raises:
            FigureSkipped: if there is no crop.
        """
        if self.request.row is not None:
            return self.request.row
        if not self.crop_specs:
            raise FigureSkipped(_no_common_frames(self.results.models))
        first = self.crop_specs[0]
        return first.sequence, first.box.y + first.box.height // 2

    def quality_over_cost(self, stem: Path) -> None:
        """Write quality over cost.

        Raises:
            FigureSkipped: if there are no evaluated runs, or their protocols differ.
        """
        costs = [
            (model.label, model.cost) for model in self.results.models if model.cost is not None
        ]
        if not costs:
            raise FigureSkipped("no result is an evaluated run (results/train/<preset>) with PSNR")
        measured = {cost.protocol for _, cost in costs}
        if len(measured) > 1:
            names = ", ".join(sorted(measured))
            raise FigureSkipped(
                f"results of two protocols do not compare ({names}); choose one with --protocol"
            )
        table = cost_table(costs)
        if table[["seconds", "parameters"]].isna().all(axis=None):
            raise FigureSkipped("neither times nor parameters are known")
        _write_table(stem, table)
        draw_quality_over_cost(stem, table, self.request.font)


_NO_PSNR = "no result has PSNR of its frames (sharp frames, TEST.METRICS: [psnr])"


def _no_common_frames(models: Sequence[ModelResult]) -> str:
    """Return the reason why there is no figure that shows frames of all results."""
    sources = ", ".join(model.source for model in models)
    return f"there is no frame that can be read of all results ({sources})"


def _enlarge(picture: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a picture of the sensor's size with its pixels repeated to those of the frame."""
    rows = np.arange(shape[0]) * picture.shape[0] // shape[0]
    columns = np.arange(shape[1]) * picture.shape[1] // shape[1]
    return np.asarray(picture[rows][:, columns])


def _write_table(stem: Path, table: pd.DataFrame) -> None:
    """Write the numbers of a figure next to it."""
    path = stem.with_name(f"{stem.name}.csv")
    atomic_write_text(path, table.to_csv(index=False, float_format="%.6g"))
