"""What holds for every metric of the table."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torchvision.models import alexnet

from vrtspike.deblurring.metrics.lpips import LPIPS
from vrtspike.deblurring.metrics.metric import Metric, Score, load_metrics
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.deblurring.perceptual import FrameDistance, build_lpips

CPU = torch.device("cpu")

each_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


@pytest.fixture(scope="module")
def scores(tmp_path_factory) -> dict[Metric, Score]:
    """Every score; that of LPIPS with random weights, for the published ones are not here."""
    others = [metric for metric in METRICS.values() if metric != LPIPS]
    torch.manual_seed(0)
    network = build_lpips(alexnet(weights=None).state_dict(), "alex")
    found = load_metrics(others, tmp_path_factory.mktemp("empty"), CPU)
    return found | {LPIPS: FrameDistance(network, CPU)}


@each_metric
def test_noise_is_worse_than_none_and_more_of_it_worse_still(metric, scores, pair):
    sharp = np.kron(pair[1], np.ones((2, 2, 1), np.uint8))
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, sharp.shape)
    little, much = (np.clip(sharp + s * noise, 0, 255).astype(np.uint8) for s in (5, 40))
    none, some, most = (scores[metric](image, sharp) for image in (sharp, little, much))
    assert metric.gain(none, some) > 0
    assert metric.gain(some, most) > 0


@each_metric
def test_it_can_be_read_about(metric):
    assert METRICS[metric.name] is metric
    assert metric.name.isidentifier()
    assert metric.title
    assert metric.definition


@pytest.mark.parametrize(
    "metric", [m for m in METRICS.values() if m != LPIPS], ids=lambda m: m.name
)
def test_what_is_no_pair_of_8_bit_images_is_refused(metric, scores, pair):
    noisy, sharp = pair
    score = scores[metric]
    with pytest.raises(ValueError, match="shapes differ"):
        score(noisy[:-1], sharp)
    with pytest.raises(ValueError, match="uint8"):
        score(noisy.astype(np.float32) / 255, sharp)
    with pytest.raises(ValueError, match="uint8"):
        score(noisy[..., 0], sharp[..., 0])


def test_tables_and_reports_pay_for_no_network():
    code = "import sys, vrtspike.deblurring.metrics.table; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"torch", "lpips", "torchvision"}.isdisjoint(modules)
