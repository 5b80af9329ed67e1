"""The Charbonnier loss, against values computed by hand."""

from __future__ import annotations

import pytest
import torch

from vrtspike.deblurring_settings.losses import CharbonnierSettings
from vrtspike.losses.charbonnier import CharbonnierLoss, charbonnier


def test_the_mean_of_both_sides_of_delta():
    restored = torch.tensor([0.0, 3.0, -8.0])
    # sqrt(0 + 36), sqrt(9 + 36) and sqrt(64 + 36)
    expected = (6 + 45**0.5 + 10) / 3
    assert charbonnier(restored, torch.zeros(3), delta=6.0).item() == pytest.approx(expected)


def test_the_gradient_is_linear_near_zero_and_constant_far_from_it():
    restored = torch.tensor([0.003, -4.0], dtype=torch.float64, requires_grad=True)
    charbonnier(restored, torch.zeros(2, dtype=torch.float64), delta=0.004).backward()
    assert restored.grad.tolist() == pytest.approx([0.5 * 0.6, -0.5], rel=1e-5)


def test_the_term_has_the_weight_and_delta_of_its_settings(tmp_path):
    term = CharbonnierLoss(CharbonnierSettings(WEIGHT=0.25, DELTA=3.0), tmp_path)
    assert (term.name, term.weight) == ("charbonnier", 0.25)
    assert term(torch.tensor([4.0]), torch.tensor([0.0])).item() == pytest.approx(5.0)
