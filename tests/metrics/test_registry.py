"""Properties of every metric of the registry."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torchvision.models import alexnet

from vrtspike.losses.lpips import build_lpips
from vrtspike.metrics.lpips import LPIPS, frame_score
from vrtspike.metrics.registry import METRICS

CPU = torch.device("cpu")

each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())

Measure = Callable[[np.ndarray, np.ndarray], float]


@pytest.fixture
def measure(metric, tmp_path) -> Measure:
    """The value of two frames and their sharp ones; LPIPS has random weights here."""
    if metric == LPIPS:
        torch.manual_seed(0)
        network = build_lpips(alexnet(weights=None).state_dict(), "alex")
        score = frame_score(network, CPU)
    else:
        score = metric.load(tmp_path, CPU)
    return score if metric.measures_motion else lambda clip, sharp: score(clip[0], sharp[0])


@pytest.fixture
def clip(noisy_and_sharp) -> np.ndarray:
    """Two frames between which the picture moves, (2, H, W, 3)."""
    sharp = np.kron(noisy_and_sharp[1], np.ones((2, 2, 1), np.uint8))
    return np.stack([sharp, np.roll(sharp, 2, axis=1)])


def noisy(clip: np.ndarray, strength: float) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, strength, clip.shape)
    return np.clip(clip + noise, 0, 255).astype(np.uint8)


@each_metric
def test_more_noise_gives_a_worse_value(metric, measure, clip):
    none, weak, strong = (measure(noisy(clip, strength), clip) for strength in (0, 5, 40))
    assert metric.gain(none, weak) > 0
    assert metric.gain(weak, strong) > 0


@each_metric
def test_a_metric_without_colour_is_the_same_on_the_luma(metric, measure, clip):
    """And one that is of colour is not: what tables say of the spikes alone depends on it."""

    def gray(frames: np.ndarray) -> np.ndarray:
        luma = np.rint(frames @ np.array([0.299, 0.587, 0.114]))
        return np.repeat(luma[..., None], 3, -1).astype(np.uint8)

    restored = noisy(clip, 30)
    close = measure(restored, clip) == pytest.approx(measure(gray(restored), gray(clip)), rel=0.01)
    assert close is not metric.is_color_sensitive


def test_gains_and_values_in_words_in_either_direction():
    psnr, lpips = METRICS["psnr"], METRICS["lpips"]
    assert (psnr.gain(31.0, 30.5), lpips.gain(0.25, 0.5), lpips.gain(0.5, 0.25)) == (
        0.5,
        0.25,
        -0.25,
    )
    assert (psnr.best([1, 3, 2]), lpips.best([2, 1, 3])) == (3, 1)
    assert (psnr.text(31.456), psnr.text(np.inf), lpips.text(0.123456)) == (
        *("31.46 dB", "inf dB", "0.1235"),
    )
    assert lpips.explanation == f"{lpips.definition}; lower is better"
    assert psnr.explanation == psnr.definition


@each_metric
def test_the_page_has_its_unit_and_direction(metric, repository):
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{metric.name}` |"))
    _, _, _, unit, better, border, _ = (cell.strip() for cell in row.split("|"))
    assert unit == (metric.unit or "none")
    assert better == ("larger" if metric.larger_is_better else "smaller")
    assert border


@pytest.mark.parametrize("metric", [m for m in METRICS.values() if m != LPIPS])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda clip: clip[:, :-1], "shapes differ"),
        (lambda clip: clip.astype(np.float32) / 255, "uint8"),
        (lambda clip: clip[..., 0], "uint8"),
    ],
)
def test_inputs_other_than_pairs_of_8_bit_images_are_refused(
    metric, measure, clip, change, message
):
    with pytest.raises(ValueError, match=message):
        measure([change(clip)[0], clip[1]], clip)
