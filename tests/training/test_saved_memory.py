"""Memory of a step, counted."""

from __future__ import annotations

import torch
from torch import nn

from vrtspike.training.saved_memory import saved_bytes, weight_bytes


def test_each_kept_tensor_counts_once_and_weights_do_not():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4, bias=False))
    x = torch.zeros(3, 8)
    # The linear layers keep what they read, the hyperbolic tangent what it gives, which is what the
    # last layer reads; the sum keeps nothing.
    assert saved_bytes(model, lambda: model(x).sum()) == 4 * (3 * 8 + 3 * 16)
    assert weight_bytes(model) == 4 * 4 * (8 * 16 + 16 + 16 * 4)
