"""The metrics of single frames, and the worst of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.deblurring.reference_metrics import decibels, luma_of
from tests.evaluation.evaluations import FRAME_METRICS
from tests.helpers.frame_source import FunctionSource
from vrtspike.analysis.evaluation_files import worst_frames
from vrtspike.data.rgb_images import Image
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.evaluation.means import ranking_metric
from vrtspike.evaluation.measure import (
    FrameImages,
    FrameReferences,
    MetricFunctions,
    measure_images,
    measured_frames,
)
from vrtspike.evaluation.protocols import PROTOCOLS
from vrtspike.metrics.metric import FunctionMetric
from vrtspike.metrics.psnr import PSNR, PSNR_Y
from vrtspike.metrics.ssim import SSIM
from vrtspike.metrics.tof import TOF
from vrtspike.monitoring.timing import Stopwatch
from vrtspike.restoration.inputs.clip_source import ClipWindow


def measured(metric_functions: MetricFunctions, *frames: FrameImages) -> list[dict[str, float]]:
    """Metrics of successive frames."""
    with ThreadPoolExecutor(2) as threads:
        pairs = zip(frames, (None, *frames), strict=False)
        return [
            measure_images(metric_functions, images, previous, threads)
            for images, previous in pairs
        ]


def test_each_image_is_measured_against_its_reference():
    rng = np.random.default_rng(4)
    blur, restored, sharp, spikes, gray = rng.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    metric_functions = {metric: metric.load(None, None) for metric in (PSNR, PSNR_Y)}
    images = {"blurry": blur, "restored": restored, "sharp": sharp, "spikes": spikes, "gray": gray}
    (row,) = measured(metric_functions, images)
    for column, image, reference in (
        ("_blur", blur, sharp), ("", restored, sharp), ("_spikes", spikes, gray),
    ):  # fmt: skip
        assert row[f"psnr{column}"] == pytest.approx(decibels(image, reference))
        expected = decibels(luma_of(image), luma_of(reference))
        assert row[f"psnr_y{column}"] == pytest.approx(expected)
    assert list(row) == [
        "psnr_blur", "psnr", "psnr_spikes", "psnr_y_blur", "psnr_y", "psnr_y_spikes",
    ]  # fmt: skip
    without = {kind: images[kind] for kind in ("blurry", "restored", "sharp")}
    (row,) = measured(metric_functions, without)
    assert list(row) == ["psnr_blur", "psnr", "psnr_y_blur", "psnr_y"]


def change(before: np.ndarray, after: np.ndarray) -> float:
    return float(after.mean() - before.mean())


CHANGE = FunctionMetric(
    "change",
    "change",
    "What the mean changes by",
    lambda restored, sharp: change(*restored) - 10 * change(*sharp),
    measures_motion=True,
)
"""A motion that can be computed by hand; the order of its arguments counts."""


def flat(**grays: int) -> dict[str, np.ndarray]:
    return {kind: np.full((4, 4, 3), gray, np.uint8) for kind, gray in grays.items()}


def test_a_temporal_metric_compares_a_frame_with_the_one_before():
    first, second, third = measured(
        {CHANGE: CHANGE.load(None, None)},
        flat(blurry=10, restored=20, sharp=30, spikes=40, gray=50),
        flat(blurry=11, restored=22, sharp=33, spikes=44, gray=55),
        flat(blurry=11, restored=22, sharp=34, spikes=44, gray=55),
    )
    assert list(first) == ["change_blur", "change", "change_spikes"]
    assert all(np.isnan(value) for value in first.values())
    assert second == {"change_blur": 1 - 30, "change": 2 - 30, "change_spikes": 4 - 50}
    assert third == {"change_blur": -10, "change": -10, "change_spikes": 0}


def test_the_model_alone_is_timed_under_the_first_protocol(clock):
    """Reading, measuring, and the tiles of another protocol take their time, too."""
    calls: list[int] = []

    def compute(batch: ClipWindow) -> NDArray[np.float32]:
        blur = batch.blur.numpy()
        calls.append(blur.shape[1])
        clock.pass_by(1.0)
        return blur.transpose(0, 1, 4, 2, 3).astype(np.float32) / 255

    def read(frames: slice) -> NDArray[Any]:
        clock.pass_by(10.0)
        return np.zeros((4, 8, 8, 3), np.uint8)[frames]

    def sharp(frame: int) -> Image:
        clock.pass_by(100.0)
        return np.zeros((8, 8, 3), np.uint8)

    def score(restored: Image, sharp: Image) -> float:
        clock.pass_by(1000.0)
        return 0.0

    source = FunctionSource(["a", "b", "c", "d"], (8, 8), read)
    settings = DeblurringSettings.model_validate(
        {"DATA": {"CLIP_LEN": 2}, "TEST": {"NUM_WORKERS": 0}}
    )
    functions_by_protocol = {PROTOCOLS[name]: {PSNR: score} for name in ("own", "vrt")}
    watch = Stopwatch(torch.device("cpu"))
    references = (FrameReferences(sharp(n), sharp(n)) for n in range(4))
    frames = list(
        measured_frames("a", source, references, compute, functions_by_protocol, settings, watch)
    )
    assert len(frames) == 4
    # Windows of two frames under the first protocol, all four at once under the other.
    assert sorted(calls) == [2, 2, 2, 4]
    assert watch.seconds == 3.0


def test_spikes_are_read_for_the_model_alone():
    """The blurry picture is no reason to decode the voxels of a frame once more."""
    blur = np.random.default_rng(2).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    windows: list[range] = []

    def read(frames: slice) -> NDArray[Any]:
        windows.append(range(4)[frames])
        return blur[frames]

    def compute(batch: ClipWindow) -> NDArray[np.float32]:
        return np.zeros((1, batch.blur.numpy().shape[1], 3, 8, 8), np.float32)

    source = FunctionSource(["a", "b", "c", "d"], (8, 8), read)
    settings = DeblurringSettings.model_validate(
        {"DATA": {"CLIP_LEN": 2}, "TEST": {"NUM_WORKERS": 0}}
    )
    functions_by_protocol = {PROTOCOLS["own"]: {PSNR: PSNR.load(None, None)}}
    sharp = 255 - blur
    references = map(FrameReferences, blur, sharp)
    frames = measured_frames("a", source, references, compute, functions_by_protocol, settings)
    for number, (rows, pictures) in enumerate(frames):
        np.testing.assert_array_equal(pictures["blurry"], blur[number])
        np.testing.assert_array_equal(pictures["sharp"], sharp[number])
        assert rows[0]["psnr_blur"] == pytest.approx(decibels(blur[number], sharp[number]))
    assert windows == [range(2), range(1, 3), range(2, 4)]


def test_frames_are_measured_in_order_in_threads_that_end():
    threads = set()

    def level(restored: Any, sharp: Any) -> float:
        threads.add(threading.current_thread())
        return float(np.mean(restored[1])) - 10 * float(np.mean(restored[0]))

    def read(frames: slice) -> NDArray[Any]:
        levels = np.arange(4, dtype=np.uint8)[:, None, None, None]
        return np.broadcast_to(levels, (4, 8, 8, 3))[frames]

    def compute(batch: ClipWindow) -> NDArray[np.float32]:
        return batch.blur.numpy().transpose(0, 1, 4, 2, 3).astype(np.float32) / 255

    source = FunctionSource(["a", "b", "c", "d"], (8, 8), read)
    flat = np.zeros((8, 8, 3), np.uint8)
    references = map(FrameReferences, read(slice(None)), [flat] * 4)
    settings = DeblurringSettings.model_validate(
        {"DATA": {"CLIP_LEN": 2}, "TEST": {"NUM_WORKERS": 0}}
    )
    functions_by_protocol = {PROTOCOLS["own"]: {CHANGE: level}}
    frames = measured_frames("a", source, references, compute, functions_by_protocol, settings)
    rows = [rows[0] for rows, _ in frames]
    assert [row["frame"] for row in rows] == ["a", "b", "c", "d"]
    # Of the restored frames 0 to 3, each with the one before it.
    np.testing.assert_equal([row["change"] for row in rows], [np.nan, 1, 2 - 10, 3 - 20])
    assert threads
    assert not any(thread.is_alive() for thread in threads)


def test_the_worst_frames_are_named_the_worst_first():
    worst = worst_frames(FRAME_METRICS, ranking_metric([SSIM, PSNR]))
    assert worst == [
        {"sequence": "c", "frame": 0, "psnr": 24.0},
        {"sequence": "c", "frame": 1, "psnr": 24.0},
        {"sequence": "b", "frame": 0, "psnr": 25.0},
        {"sequence": "a", "frame": 0, "psnr": 30.0},
        {"sequence": "a", "frame": 1, "psnr": 31.0},
    ]
    perfect = FRAME_METRICS.replace({"psnr": {25.0: np.inf, 24.0: np.nan}})
    assert [frame["psnr"] for frame in worst_frames(perfect, PSNR)] == [30, 31, 38]
    lower = FRAME_METRICS.rename(columns={"psnr": "tof"})
    assert [frame["tof"] for frame in worst_frames(lower, TOF)] == [38, 31, 30, 25, 24]
