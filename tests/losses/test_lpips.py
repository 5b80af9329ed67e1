"""LPIPS as a loss, against the package `lpips`."""

from __future__ import annotations

import lpips
import numpy as np
import pytest
import torch
from torchvision.models import alexnet
from torchvision.models.vgg import cfgs, make_layers

from vrtspike.losses.lpips import build_lpips
from vrtspike.metrics.lpips import MIN_SIDE, frame_score
from vrtspike.system.errors import DataError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 256, (64, 80, 3), dtype=np.uint8)
    return first, 255 - first


@pytest.mark.parametrize(
    ("net", "make"),
    [("alex", lambda: alexnet(weights=None).features), ("vgg", lambda: make_layers(cfgs["D"]))],
)
def test_the_backbone_is_the_given_one(net, make):
    torch.manual_seed(1)
    features = make()
    model = build_lpips({f"features.{k}": v for k, v in features.state_dict().items()}, net)
    inputs = torch.rand(1, 3, 64, 64)
    first = model.net.slice1(inputs)
    length = len(model.net.slice1)
    torch.testing.assert_close(first, features[:length](inputs))


def test_random_numbers_of_the_run_stay_unchanged():
    backbone = alexnet(weights=None).state_dict()
    before = torch.get_rng_state()
    build_lpips(backbone, "alex")
    assert torch.equal(torch.get_rng_state(), before)


def test_distance_is_that_of_the_package(images):
    torch.manual_seed(1)
    model = build_lpips(alexnet(weights=None).state_dict(), "alex")
    metric = frame_score(model, CPU)
    a, b = (lpips.im2tensor(image) for image in images)
    with torch.no_grad():
        expected = float(model(a, b))
    assert expected > 0
    assert metric(*images) == pytest.approx(expected, rel=1e-5)
    assert metric(images[0], images[0]) == 0


def test_frames_that_are_too_small_are_refused_with_advice():
    metric = frame_score(build_lpips(alexnet(weights=None).state_dict(), "alex"), CPU)
    small = np.zeros((MIN_SIDE, MIN_SIDE, 3), dtype=np.uint8)
    assert metric(small, small) == 0
    for frame in (small[1:], small[:, 1:]):
        with pytest.raises(DataError, match=r"LPIPS: found frames of 3\d x 3\d .* TEST\.METRICS"):
            metric(frame, frame)
