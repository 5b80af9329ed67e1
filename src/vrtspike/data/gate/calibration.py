"""Where and when the frames of one's own camera see what the spike sensor sees.

A recording is a folder with ``blur/*`` (8-bit frames) and ``spike.dat``; that of a moving scene
also says in ``exposures.csv`` when its frames were exposed, as well as is known. A static scene
gives the homography between two cameras side by side: features (SIFT, RANSAC) begin it and the
enhanced correlation coefficient refines it, both of OpenCV. A moving scene gives the time offset:
the mean of the spikes over an exposure is most like its frame where the exposure really was.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import TABLE, Exposure, exposure_table, read_exposures
from vrtspike.data.gate.alignment import (
    DOUBTED,
    MIN_CORRELATION,
    MIN_DISTINCTION,
    band_pass,
    correlation_curve,
    find_peak,
)
from vrtspike.data.raw.layouts.files import SENSOR_FILE, sensor_file
from vrtspike.data.raw.layouts.folders import match_frames
from vrtspike.data.raw.recordings import find_sensor
from vrtspike.data.raw.spikes import PackedSpikes, Sensor, count_spike_frames
from vrtspike.data.simulation.sequence import frame_files
from vrtspike.io.files import atomic_write_text, replaced_folder, write_json
from vrtspike.io.images import read_gray, read_rgb, shrink, write_png
from vrtspike.system.errors import DataError

SPIKES = "spike.dat"
STATIC_STEPS = 2000
"""Steps of a static scene that are averaged at most."""
STATIC_FRAMES = 16
"""Frames of a static scene that are averaged at most."""
MIN_MATCHES = 12
"""Features that must fit one homography."""
GOOD_PIXELS = 0.5
"""Sensor pixels by which frames may miss the spikes."""
MIN_SPIKES = 2.5
"""Spikes of a pixel in half a static recording, on average, that tell whether the scene moved: with
fewer, halves of simulated still scenes seem to differ by 0.3 sensor pixels and more, else by less
than 0.2."""
GOOD_STEPS = 0.5
"""Steps by which the frames of a moving scene may disagree, as a standard error."""

MIN_COVERED = 0.95
"""Share of the sensor that frames must show; they are continued by their borders."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """What was found; the contents of ``calibration.json``."""

    frame_size: tuple[int, int]
    sensor_size: tuple[int, int]
    """Of the picture."""
    file_size: tuple[int, int]
    """Of the sensor as in its files."""
    homography: list[list[float]]
    """3 x 3, from (x, y, 1) of a sensor pixel's centre to that of a frame's pixel."""
    residual_pixels: float
    """Median distance that is left, in sensor pixels."""
    covered: float
    """Share of the sensor's pixels that frames show."""
    offset_steps: float | None = None
    """Steps by which exposures were later than said; None without a moving scene."""
    residual_steps: float | None = None
    """Standard error of the offset, from how frames differ; None of a single frame."""
    correlation: float | None = None
    """Of spikes and frames of the moving scene, at this offset."""
    moved_pixels: float | None = None
    """Sensor pixels by which the static scene moved while it was recorded; None where it is too
    dark or too short to tell."""

    @property
    def faults(self) -> list[str]:
        """What speaks against the result."""
        pixels, steps = self.residual_pixels, self.residual_steps or 0.0
        likeness = 1.0 if self.correlation is None else self.correlation
        moved = self.moved_pixels or 0.0
        is_wrong = {
            f"the static scene moved by {moved:.2f} sensor pixels while it was recorded (its first "
            f"half against its second), expected at most {GOOD_PIXELS}: record it again with "
            "cameras and scene at rest; otherwise the time offset is wrong, too": moved
            > GOOD_PIXELS,
            f"{pixels:.2f} sensor pixels are left, expected at most {GOOD_PIXELS}: the scene "
            "moved, is too near, or a lens distorts": pixels > GOOD_PIXELS,
            f"the time offset is known to {steps:.2f} steps, expected at most {GOOD_STEPS}: record "
            "more frames, or faster motion": steps > GOOD_STEPS,
            f"frames and spikes of the moving scene correlate by {likeness:.2f}, expected "
            f"{DOUBTED}: record a static scene with the cameras as they are now": likeness
            < DOUBTED,
            f"frames show {self.covered:.0%} of what the sensor sees, expected {MIN_COVERED:.0%}: "
            "turn the cameras to the same view, or use a wider lens": self.covered < MIN_COVERED,
        }
        return [fault for fault, found in is_wrong.items() if found]


def calibrate(
    static: Path,
    moving: Path | None,
    sensor_size: tuple[int, int] | None = None,
    most_steps: int = 200,
) -> tuple[Calibration, NDArray[np.uint8]]:
    """Find homography and time offset.

    Args:
        static: recording of a scene in which nothing moves.
        moving: recording of a scene that moves; None leaves the offset open.
        sensor_size: rows and columns of the sensor as in its files; None finds them.
        most_steps: of an offset, either way.

    Returns:
        the result, and a picture of it: spikes in red and frames in cyan, before and after.

    Raises:
        DataError: if files are missing or do not fit, or a scene does not tell.
    """
    spikes = static / SPIKES
    sensor = find_sensor(spikes, sensor_size, sensor_file(spikes))
    files = frame_files(static / "blur")[:STATIC_FRAMES]
    frames = [read_gray(path) for path in files]
    for path, frame in zip(files, frames, strict=True):
        _require_size(path, frame, frames[0].shape)
    gray: NDArray[np.float32] = np.stack(frames).mean(axis=0, dtype=np.float32)
    steps = min(STATIC_STEPS, count_spike_frames(spikes, *sensor.size))
    recorded = sensor.read(spikes, count=steps)
    rate = recorded.picture() / np.float32(steps)
    homography = find_homography(gray, rate)
    before, registered = (
        shrink(on_sensor(gray, matrix, rate.shape), *rate.shape)
        for matrix in (_same_view(gray.shape, rate.shape), homography)
    )
    found = Calibration(
        frame_size=(gray.shape[0], gray.shape[1]),
        sensor_size=(rate.shape[0], rate.shape[1]),
        file_size=sensor.size,
        homography=homography.tolist(),
        residual_pixels=_distance(registered, rate),
        covered=_covered(homography, gray.shape, rate.shape),
        moved_pixels=_movement(recorded, frames),
        **(find_offset(moving, sensor, homography, most_steps) if moving else {}),
    )
    red, cyan = np.hstack([_bytes(rate)] * 2), np.hstack([_bytes(before), _bytes(registered)])
    return found, np.dstack([red, cyan, cyan])


def find_homography(gray: NDArray[np.float32], rate: NDArray[np.float32]) -> Matrix:
    """The homography from the sensor to the frame.

    Args:
        gray: mean frame (H, W) of a static scene.
        rate: mean spikes (h, w) of it.

    Raises:
        DataError: if too few features of both fit together.
    """
    scale = max(1.0, min(gray.shape[0] / rate.shape[0], gray.shape[1] / rate.shape[1]))
    small = shrink(gray, round(gray.shape[0] / scale), round(gray.shape[1] / scale))
    detector = cv2.SIFT.create(contrastThreshold=0.02)
    points, features = detector.detectAndCompute(_bytes(rate), None)
    others, targets = detector.detectAndCompute(_bytes(small), None)
    is_rich = len(points) >= 2 and len(others) >= 2
    near = cv2.BFMatcher().knnMatch(features, targets, k=2) if is_rich else ()
    pairs = [best for best, second in near if best.distance < 0.8 * second.distance]
    inliers, first = 0, None
    if len(pairs) >= MIN_MATCHES:
        here = np.array([points[pair.queryIdx].pt for pair in pairs], np.float32)
        there = np.array([others[pair.trainIdx].pt for pair in pairs], np.float32)
        first, mask = cv2.findHomography(here, there, cv2.RANSAC, 2.0)
        inliers = int(mask.sum()) if first is not None else 0
    if first is None or inliers < MIN_MATCHES:
        raise DataError(
            f"static scene: {inliers} features of frames and spikes fit together, expected at "
            f"least {MIN_MATCHES}: film a scene with many details, both cameras in focus; or the "
            f"sensor has another size than {rate.shape[0]} x {rate.shape[1]} (--sensor)"
        )
    seen, shown = (band_pass(_unit(picture)) for picture in (rate, small))
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 200, 1e-7)
    begin = first.astype(np.float32)
    try:
        _, warp = cv2.findTransformECC(seen, shown, begin, cv2.MOTION_HOMOGRAPHY, stop)
    except cv2.error as error:  # it does not converge
        raise DataError(
            f"static scene: {inliers} features of frames and spikes fit together, but not their "
            "pixels: is it the same scene, in the same light?"
        ) from error
    found: Matrix = _same_view(gray.shape, small.shape) @ warp.astype(np.float64)
    return found / found[2, 2]


def find_offset(
    moving: Path, sensor: Sensor, homography: Matrix, most_steps: int
) -> dict[str, float | None]:
    """By how many steps exposures were later than ``exposures.csv`` says.

    Raises:
        DataError: if files do not fit together, nothing moves, or the offset is not within
            ``most_steps``.
    """
    files = {path.stem: path for path in frame_files(moving / "blur")}
    exposures = match_frames(read_exposures(moving / TABLE, has_sharp=False), files)
    if set(files) != set(exposures):
        odd = sorted(set(files) ^ set(exposures))
        raise DataError(f"{moving}: found {odd[0]} in only one of blur/ and {TABLE}")
    total = count_spike_frames(moving / SPIKES, *sensor.size)
    low = max(-most_steps, *(-exposure.start for exposure in exposures.values()))
    high = min(most_steps, *(total - exposure.stop for exposure in exposures.values()))
    if high <= low:
        raise DataError(
            f"{moving / TABLE}: exposures take all {total} steps of {SPIKES}; record some steps "
            "before the first and after the last exposure"
        )
    curves = []
    for name, exposure in exposures.items():
        begin, steps = exposure.start + low, exposure.steps + high - low
        spikes = sensor.read(moving / SPIKES, begin, steps)
        frame = read_gray(files[name]).astype(np.float32)
        seen = on_sensor(frame, homography, spikes.shape[1:])
        # Of each offset from low to high.
        curves.append(correlation_curve(spikes, seen, exposure.steps)[1])
    mean = np.mean(curves, axis=0)
    peak, correlation = find_peak(mean)
    if correlation < MIN_CORRELATION or correlation - float(mean.min()) < MIN_DISTINCTION:
        raise DataError(
            f"{moving}: frames and spikes correlate by {correlation:.2f} at best and "
            f"{mean.min():.2f} at worst, expected at least {MIN_CORRELATION} and a difference of "
            f"{MIN_DISTINCTION}: nothing moves, or they show different scenes"
        )
    if int(mean.argmax()) in (0, len(mean) - 1):
        raise DataError(
            f"{moving}: the best offset is at the end of {low} to {high} steps: raise "
            "--most-steps, or record more steps before and after the exposures"
        )
    single = [low + find_peak(curve)[0] for curve in curves]
    spread = float(np.std(single, ddof=1) / np.sqrt(len(single))) if len(single) > 1 else None
    return {
        "offset_steps": round(low + peak, 3),
        "residual_steps": spread,
        "correlation": correlation,
    }


def on_sensor(picture: NDArray[Any], homography: Matrix, sensor: Sequence[int]) -> NDArray[Any]:
    """A frame on the sensor's grid, with about as many pixels for each spike pixel as it has.

    Args:
        picture: (H, W) or (H, W, 3).
        homography: from the sensor to the frame.
        sensor: rows and columns of the sensor.
    """
    scale = max(1, round(min(picture.shape[0] / sensor[0], picture.shape[1] / sensor[1])))
    height, width = scale * sensor[0], scale * sensor[1]
    matrix = homography @ _same_view(sensor, (height, width))
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    found = cv2.warpPerspective(
        picture, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(found)


def save(folder: Path, found: Calibration, picture: NDArray[np.uint8]) -> None:
    """Write ``calibration.json`` and ``calibration.png``."""
    write_json(folder / "calibration.json", asdict(found))
    write_png(folder / "calibration.png", picture)


def apply(found: Calibration, root: Path, output: Path) -> list[Path]:
    """Write a data set of which frames lie on the sensor's grid, at their right times.

    Args:
        found: what was found.
        root: ``<split>/<sequence>/`` with ``blur/``, perhaps ``sharp/``, ``spike.dat`` and
            ``exposures.csv``.
        output: the data set's folder to write, of layout ``stream``.

    Returns:
        the folders of the sequences that were written.

    Raises:
        DataError: if there are no sequences, one has no frames or no spikes, or exposures that
            leave them, a frame has another size, or the output holds other sequences.
    """
    sources = sorted({p.parent for p in root.glob("*/*/*") if p.name in ("blur", SPIKES)})
    if not sources:
        raise DataError(f"{root}: no <split>/<sequence>/{SPIKES} in it")
    exposures = {source: _moved_exposures(found, source) for source in sources}
    targets = {output / source.relative_to(root): source for source in sources}
    others = {path.parent for path in output.glob(f"*/*/{TABLE}")} - targets.keys()
    if others:
        raise DataError(f"{min(others)}: no sequence of {root} has this name; remove the folder")
    homography = np.array(found.homography)
    rows, columns = found.file_size
    atomic_write_text(output / SENSOR_FILE, f"spike_h: {rows}\nspike_w: {columns}\n")
    for target, source in targets.items():
        with replaced_folder(target) as folder:
            for part in ("blur", "sharp"):
                for path in frame_files(source / part) if (source / part).is_dir() else ():
                    picture = read_rgb(path)
                    _require_size(path, picture, found.frame_size)
                    seen = on_sensor(picture, homography, found.sensor_size)
                    write_png(folder / part / f"{path.stem}.png", seen)
            atomic_write_text(folder / TABLE, exposure_table(exposures[source]))
            shutil.copyfile(source / SPIKES, folder / SPIKES)
    return list(targets)


def _moved_exposures(found: Calibration, source: Path) -> dict[str, Exposure]:
    """The exposures of a recording at their right times."""
    names = [path.stem for path in frame_files(source / "blur")]
    table = read_exposures(source / TABLE, has_sharp=(source / "sharp").is_dir())
    if not (source / SPIKES).is_file():
        raise DataError(f"{source / SPIKES}: no such file; expected the spikes of the sequence")
    total = count_spike_frames(source / SPIKES, *found.file_size)
    # The shutter opens with a step, the sharp instant need not.
    offset = found.offset_steps or 0.0
    exposures = {
        name: each.moved(round(offset))._replace(sharp=each.sharp + offset)
        for name, each in match_frames(table, names).items()
    }
    left = [name for name, each in exposures.items() if each.start < 0 or each.stop > total]
    if left:
        raise DataError(
            f"{source / TABLE}: {offset:+.2f} steps later the exposures of {', '.join(left)} leave "
            f"the {total} steps of {SPIKES}; remove these frames and their lines"
        )
    return exposures


def _require_size(path: Path, picture: NDArray[np.uint8], size: Sequence[int]) -> None:
    if picture.shape[:2] != tuple(size):
        raise DataError(
            f"{path}: {picture.shape[0]} x {picture.shape[1]}, expected the size of the "
            f"calibration's frames, {size[0]} x {size[1]}"
        )


def _same_view(frame: Sequence[int], sensor: Sequence[int]) -> Matrix:
    """From pixels of the sensor to those of a frame with the same borders."""
    across, down = frame[1] / sensor[1], frame[0] / sensor[0]
    return np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2], [0, 0, 1]])


def _distance(seen: NDArray[np.float32], rate: NDArray[np.float32]) -> float:
    """Median length of the optical flow that is left where there is something to see."""
    pictures = [_bytes(band_pass(_unit(picture))) for picture in (seen, rate)]
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(*pictures, None)  # type: ignore[call-overload]
    detail = np.abs(band_pass(_unit(rate)))
    is_rich = detail >= np.percentile(detail, 75)
    inside = (slice(8, -8), slice(8, -8))
    length = np.hypot(flow[..., 0], flow[..., 1])
    return float(np.median(length[inside][is_rich[inside]]))


def _movement(spikes: PackedSpikes, frames: Sequence[NDArray[np.uint8]]) -> float | None:
    """Sensor pixels by which a scene moved, by the halves of its spikes and of its frames.

    The means of two halves are half as far from each other as the ends of a steady movement.

    Args:
        spikes: of the scene.
        frames: of it, in order.

    Returns:
        the larger of both; None where neither tells.
    """
    rows, columns = spikes.shape[1:]
    distances = []
    half = len(spikes) // 2
    first, second = spikes.picture(0, half), spikes.picture(len(spikes) - half)
    if first.mean() >= MIN_SPIKES:
        distances.append(_distance(first, second))
    half = len(frames) // 2
    if half:
        means = [
            shrink(np.stack(part).mean(axis=0, dtype=np.float32), rows, columns)
            for part in (frames[:half], frames[-half:])
        ]
        distances.append(_distance(means[0], means[1]))
    return 2 * max(distances) if distances else None


def _covered(homography: Matrix, frame: Sequence[int], sensor: Sequence[int]) -> float:
    """Share of the sensor's pixels whose centres lie in the frame, to half a pixel."""
    y, x = np.mgrid[: sensor[0], : sensor[1]]
    points = homography @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    x, y = points[:2] / points[2]
    inside = (x >= -1) & (y >= -1) & (x <= frame[1]) & (y <= frame[0])
    return float(inside.mean())


def _unit(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stretched to 0 to 1; single bright or dark pixels do not count."""
    low, high = np.percentile(picture, (0.5, 99.5))
    return np.clip((picture - low) / max(high - low, 1e-6), 0, 1).astype(np.float32)


def _bytes(picture: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.rint(255 * _unit(picture)).astype(np.uint8)
