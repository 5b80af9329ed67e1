"""What holds for every metric of the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchvision.models import alexnet

from vrtspike.deblurring.metrics.lpips import LPIPS, frame_score
from vrtspike.deblurring.metrics.metric import FrameMetric, Metric, Score, TemporalMetric
from vrtspike.deblurring.metrics.registry import METRICS
from vrtspike.deblurring.perceptual import build_lpips

CPU = torch.device("cpu")

FRAME_METRICS = [metric for metric in METRICS.values() if isinstance(metric, FrameMetric)]
TEMPORAL_METRICS = [metric for metric in METRICS.values() if isinstance(metric, TemporalMetric)]

each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
each_frame_metric = pytest.mark.parametrize("metric", FRAME_METRICS, ids=lambda m: m.name)
each_temporal_metric = pytest.mark.parametrize("metric", TEMPORAL_METRICS, ids=lambda m: m.name)


@pytest.fixture(scope="module")
def scores(tmp_path_factory) -> dict[Metric, Score]:
    """Every score; that of LPIPS with random weights, for the published ones are not here."""
    others = [metric for metric in FRAME_METRICS if metric != LPIPS]
    torch.manual_seed(0)
    network = build_lpips(alexnet(weights=None).state_dict(), "alex")
    found = {metric: metric.load(tmp_path_factory.mktemp("empty"), CPU) for metric in others}
    return found | {LPIPS: frame_score(network, CPU)}


@each_frame_metric
def test_noise_is_worse_than_none_and_more_of_it_worse_still(metric, scores, pair):
    sharp = np.kron(pair[1], np.ones((2, 2, 1), np.uint8))
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, sharp.shape)
    little, much = (np.clip(sharp + s * noise, 0, 255).astype(np.uint8) for s in (5, 40))
    none, some, most = (scores[metric](image, sharp) for image in (sharp, little, much))
    assert metric.gain(none, some) > 0
    assert metric.gain(some, most) > 0


@each_temporal_metric
def test_frames_that_flicker_are_worse_and_more_of_it_worse_still(metric, pair, tmp_path):
    sharp = np.kron(pair[1], np.ones((2, 2, 1), np.uint8))
    clip = [sharp, np.roll(sharp, 2, axis=1)]
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (2, *sharp.shape))
    score = metric.load(tmp_path, CPU)
    true = score.motion(*clip)
    figures = [
        score.distance(score.motion(*np.clip(clip + s * noise, 0, 255).astype(np.uint8)), true)
        for s in (0, 5, 40)
    ]
    assert metric.gain(figures[0], figures[1]) > 0
    assert metric.gain(figures[1], figures[2]) > 0


@each_metric
def test_one_that_is_not_of_colour_is_the_same_of_the_luma(metric, scores, pair, tmp_path):
    """And one that is of colour is not: what tables say of the spikes alone depends on it."""
    sharp = np.kron(pair[1], np.ones((2, 2, 1), np.uint8))
    noise = np.random.default_rng(0).normal(0, 30, (2, *sharp.shape))
    clip = [sharp, np.roll(sharp, 2, axis=1)]
    noisy = np.clip(clip + noise, 0, 255).astype(np.uint8)
    weights = np.array([0.299, 0.587, 0.114])
    figures = []
    for frames, references in (
        (noisy, np.stack(clip)),
        [np.repeat(np.rint(f @ weights)[..., None], 3, -1).astype(np.uint8) for f in (noisy, clip)],
    ):
        if isinstance(metric, TemporalMetric):
            score = metric.load(tmp_path, CPU)
            figures.append(score.distance(score.motion(*frames), score.motion(*references)))
        else:
            figures.append(scores[metric](frames[0], references[0]))
    close = figures[0] == pytest.approx(figures[1], rel=0.01)
    assert close is not metric.of_colour


def test_gains_and_figures_in_words_in_either_direction():
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
def test_the_page_tells_its_unit_and_direction(metric, repository):
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{metric.name}` |"))
    _, _, _, unit, better, border, _ = (cell.strip() for cell in row.split("|"))
    assert unit == (metric.unit or "none")
    assert better == ("larger" if metric.larger_is_better else "smaller")
    assert border


@pytest.mark.parametrize("metric", [m for m in FRAME_METRICS if m != LPIPS], ids=lambda m: m.name)
def test_what_is_no_pair_of_8_bit_images_is_refused(metric, scores, pair):
    noisy, sharp = pair
    score = scores[metric]
    with pytest.raises(ValueError, match="shapes differ"):
        score(noisy[:-1], sharp)
    with pytest.raises(ValueError, match="uint8"):
        score(noisy.astype(np.float32) / 255, sharp)
    with pytest.raises(ValueError, match="uint8"):
        score(noisy[..., 0], sharp[..., 0])
