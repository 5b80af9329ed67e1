from __future__ import annotations

import pytest
import torch

from vrtspike.deblurring.losses.charbonnier import charbonnier


def test_charbonnier_values_and_gradient():
    zero = torch.zeros(2, 3)
    assert charbonnier(zero, zero, 1e-3) == pytest.approx(1e-3)
    assert charbonnier(zero + 3, zero, 4.0) == pytest.approx(5.0)
    torch.manual_seed(0)
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: charbonnier(a, y, 0.1), (x,))
