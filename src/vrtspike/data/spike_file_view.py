"""Views of spike files: statistics, picture and video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.alignment import (
    WINDOW,
    Alignment,
    align,
    center_tolerance,
    correlation_curve,
    mismatch,
)
from vrtspike.data.checks.step_order import disorder, order_fault
from vrtspike.data.raw.layouts.files import sensor_file
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.recordings import find_sensor
from vrtspike.data.raw.spikes import count_steps
from vrtspike.data.video import video_writer
from vrtspike.io.images import read_gray
from vrtspike.plotting.drawing import drawn_figure
from vrtspike.system.errors import DataError

WINDOWS = 5
"""Windows of the picture, evenly over the file."""
MAX_STEPS = 2000
"""Maximum steps of a recording that are read by default."""
VIDEO_WIDTH = 640
"""Smaller sensors are enlarged, whole pixels repeated, to at least about this."""
_INCHES = 11.0
_WHITE = 99.5
"""Percentile of the rate that is shown as white."""


@dataclass(frozen=True)
class SpikeFileView:
    """A spike file, or a part of it, and its match with a frame.

    Attributes:
        path: path of the file.
        sensor: rows and columns as in the file.
        total: steps of the whole file.
        start: first step that was read.
        spikes: (T, h, w), the picture only.
        gray: the frame that it is compared with, (H, W) of 0 to 255; None without a frame.
        alignment: alignment of spikes and frame; None without a frame.
        expected: the step of the whole file that the frame should show; None if it is unknown.
    """

    path: Path
    sensor: tuple[int, int]
    total: int
    start: int
    spikes: PackedSpikes
    gray: NDArray[np.uint8] | None = None
    alignment: Alignment | None = None
    expected: float | None = None

    @cached_property
    def rate(self) -> NDArray[np.float64]:
        """Mean spikes of each pixel and step, (h, w), 0 to 1."""
        return self.spikes.count_image().astype(np.float64) / len(self.spikes)

    @cached_property
    def disorder(self) -> float | None:
        """Order of the steps, see :func:`~vrtspike.data.checks.step_order.disorder`."""
        return disorder(self.spikes)

    @property
    def window_steps(self) -> int:
        """Steps of the sliding window; all steps of a short file."""
        return min(WINDOW, len(self.spikes))

    def window(self, first: int) -> NDArray[np.float64]:
        """Return the mean of the sliding window from a step on, (h, w), 0 to 1."""
        spikes = self.spikes.count_image(first, first + self.window_steps)
        return spikes.astype(np.float64) / self.window_steps


def view_spike_file(
    path: Path,
    size: tuple[int, int] | None = None,
    frame: Path | None = None,
    start: int = 0,
    steps: int | None = None,
    layout: Layout | None = None,
) -> SpikeFileView:
    """Read a spike file.

    Args:
        path: ``.dat`` or ``.npz``.
        size: rows and columns of the sensor as in the file; None finds them, see
            :func:`~vrtspike.data.raw.recordings.find_sensor`.
        frame: the sharp frame of the same exposure.
        start: first step to read.
        steps: number of steps; None is all, but at most :data:`MAX_STEPS`.
        layout: layout of the file; gives the step of the frame, if the file is of one exposure.

    Raises:
        DataError: if a file cannot be read, its size is unknown, steps are not in it, or frame and
            sensor do not fit together.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file; expected a spike file (.dat or .npz)")
    if path.is_dir():
        raise DataError(f"{path}: found a folder, expected a spike file (.dat or .npz)")
    gray = None
    shape = None
    if frame is not None:
        gray = read_gray(frame)
        shape = (gray.shape[0], gray.shape[1])
    sensor = find_sensor(path, size, sensor_file(path), layout, shape)
    total = count_steps(path, *sensor.size)
    if not 0 <= start < total:
        raise DataError(f"{path}: start {start}: the file holds steps 0 to {total - 1}")
    count = min(total - start, MAX_STEPS) if steps is None else steps
    spikes = sensor.read(path, start, count)
    alignment = None
    if gray is not None:
        try:
            alignment = align(spikes, gray)
        except DataError as error:
            raise DataError(f"{path}: {error}; check the size of the sensor") from error
    expected = None
    exposure = None if layout is None else layout.find_exposure(total, path)
    if exposure is not None:
        expected = exposure.sharp
    return SpikeFileView(path, sensor.size, total, start, spikes, gray, alignment, expected)


def describe_view(view: SpikeFileView) -> list[str]:
    """Return the statistics of a spike file, a line each."""
    height, width = view.sensor
    picture = ""
    if view.spikes.columns != width:
        picture = f" ({view.spikes.columns} of them picture)"
    part = ""
    if len(view.spikes) != view.total:
        part = f", {len(view.spikes)} from step {view.start} on are looked at"
    mean = float(view.rate.mean())
    interval = f" (once in {1 / mean:.1f} steps)" if mean > 0 else ""
    low, high = np.percentile(view.rate, (1, 99))
    silent = int((view.rate == 0).sum())
    pixels = view.rate.size
    lines = [
        f"{view.path}: {view.total} steps of {height} x {width}{picture}{part}",
        f"mean rate: {mean:.3f} spikes per pixel and step{interval}; 1 % of the pixels below "
        f"{low:.3f}, 1 % above {high:.3f}",
        f"pixels that never fire: {silent} of {pixels} ({silent / pixels:.1%})",
        f"order of the steps: {_order_line(view.disorder)}",
    ]
    if view.alignment is not None:
        lines.append(_match_line(view, view.alignment))
    return lines


def _order_line(value: float | None) -> str:
    """Return the frequency of successive spikes, as text."""
    if value is None:
        return "too few spikes to tell"
    return (
        f"a pixel fires twice in a row {max(0.0, value):.2f} times as often as by chance; an "
        "integrating sensor's hardly ever"
    )


def spike_file_faults(view: SpikeFileView) -> list[str]:
    """Return faults of a spike file, a sentence each; empty for a valid file."""
    candidates = [order_fault(view.disorder, str(view.path))]
    if view.alignment is not None:
        shape = view.spikes.shape[1:]
        candidates.append(mismatch(view.alignment, view.path, "the frame", shape))
    return [fault for fault in candidates if fault]


def _match_line(view: SpikeFileView, alignment: Alignment) -> str:
    """Return the match of spikes and frame, as text."""
    expected = view.expected
    tolerance = center_tolerance(view.total)
    center = view.start + alignment.center
    line = (
        f"correlation with the frame: {alignment.correlation:.2f} at step {center:.1f} of "
        f"{view.total}"
    )
    if expected is not None:
        line += f" (expected at {expected:.0f} +- {tolerance:.0f})"
    if not alignment.assessable:
        return f"{line}; the frame is too small or too plain for a verdict"
    if alignment.matches and not alignment.locates:
        return f"{line}; nothing moves, so the step says little"
    if expected is not None and alignment.locates and abs(center - expected) > tolerance:
        return f"{line}; the file may be cut, shifted or reversed in time: see the others"
    return line


def draw_spikes(view: SpikeFileView, path: Path) -> None:
    """Draw a spike file: mean rate, an instant, the frame, a sliding window, a raster, curves.

    Args:
        view: contents of the spike file.
        path: path of the picture, ``.png`` or ``.svg``.
    """
    # Rows are as high as their pictures, so that these lie close to each other.
    _, height, width = view.spikes.shape
    aspect = height / width
    columns = 2 if view.gray is None else 3
    rows = (_INCHES / columns * aspect + 0.4, _INCHES / WINDOWS * aspect + 0.4, 3.2)

    with drawn_figure(path, (_INCHES, sum(rows))) as figure:
        figure.suptitle(view.path.name, fontsize=10)
        parts: Any = figure.subfigures(3, 1, height_ratios=rows)
        top, middle, bottom = parts
        _draw_images(top, _images(view))
        _draw_images(middle, _windows(view))
        left, right = bottom.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_raster(left, view)
        _draw_curves(right, view)


_Image = tuple[str, NDArray[Any], float]
"""Title, picture, and the value that is shown as white."""


def _draw_images(figure: Any, images: Sequence[_Image]) -> None:  # noqa: ANN401
    for axes, (title, image, white) in zip(figure.subplots(1, len(images)), images, strict=True):
        axes.imshow(image, cmap="gray", vmin=0, vmax=white, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.set_axis_off()


def _white(image: NDArray[np.float64]) -> float:
    """Return the rate that is shown as white."""
    return max(float(np.percentile(image, _WHITE)), 1e-6)


def _images(view: SpikeFileView) -> Sequence[_Image]:
    """Return the mean rate, a window about an instant, and the frame if there is one."""
    instant, name = _shown_instant(view)
    steps = view.window_steps
    first = int(np.clip(instant - view.start - steps // 2, 0, len(view.spikes) - steps))
    window = view.window(first)
    images: list[_Image] = [
        (f"mean rate of {len(view.spikes)} steps", view.rate, _white(view.rate)),
        (f"{steps} steps about {name} ({instant})", window, _white(window)),
    ]
    if view.gray is not None and view.alignment is not None:
        title = f"frame, correlation {view.alignment.correlation:.2f}"
        images.append((title, view.gray, 255.0))
    return images


def _shown_instant(view: SpikeFileView) -> tuple[int, str]:
    """Return the step of the whole file that the picture shows, and its name."""
    stop = view.start + len(view.spikes)
    if view.alignment is not None and view.alignment.locates:
        return round(view.start + view.alignment.center), "the sharp instant"
    if view.expected is not None and view.start <= view.expected < stop:
        return int(view.expected), "the expected instant"
    return view.start + len(view.spikes) // 2, "the middle"


def _windows(view: SpikeFileView) -> Sequence[_Image]:
    """Return windows from the beginning to the end, equally bright."""
    steps = view.window_steps
    starts = np.linspace(0, len(view.spikes) - steps, WINDOWS).astype(int).tolist()
    images = [view.window(start) for start in starts]
    white = max(map(_white, images))
    firsts = [view.start + start for start in starts]
    titles = [f"steps {first} to {first + steps - 1}" for first in firsts]
    return [(title, image, white) for title, image in zip(titles, images, strict=True)]


def _draw_raster(axes: Any, view: SpikeFileView) -> None:  # noqa: ANN401
    """Draw the spikes of the middle row over time."""
    row = view.spikes.shape[1] // 2
    raster = np.stack([view.spikes[step][row] for step in range(len(view.spikes))])
    extent = (0, view.spikes.columns, view.start + len(view.spikes), view.start)
    axes.imshow(raster, cmap="gray_r", aspect="auto", interpolation="nearest", extent=extent)
    axes.grid(visible=False)
    axes.set_title(f"spikes of row {row}", fontsize=9)
    axes.set(xlabel="column", ylabel="step")


def _draw_curves(axes: Any, view: SpikeFileView) -> None:  # noqa: ANN401
    """Draw the rate, and the correlation with the frame, over time."""
    rates = [float(view.spikes[step].mean()) for step in range(len(view.spikes))]
    axes.plot(np.arange(len(rates)) + view.start, rates, linewidth=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")
    axes.set_ylabel("share of the pixels that fire", color="C0")
    axes.set_title("over time", fontsize=9)
    if view.gray is None:
        return
    centers, curve = correlation_curve(view.spikes, view.gray)
    other = axes.twinx()
    other.plot(centers + view.start, curve, color="C1")
    other.set_ylim(min(0.0, float(curve.min())), 1)
    other.set_ylabel("correlation with the frame", color="C1")
    other.grid(visible=False)


def write_spike_video(view: SpikeFileView, path: Path) -> None:
    """Write a video of a window of :data:`WINDOW` steps that slides over the spikes.

    Args:
        view: contents of the spike file.
        path: ends in ``.mp4``.
    """
    white = _white(view.rate)
    factor = max(1, VIDEO_WIDTH // view.spikes.columns)
    with video_writer(path) as append:
        for first in range(len(view.spikes) - view.window_steps + 1):
            gray = np.clip(view.window(first) / white * 255, 0, 255).round().astype(np.uint8)
            large = gray.repeat(factor, axis=0).repeat(factor, axis=1)
            append([np.repeat(large[:, :, None], 3, axis=2)])
