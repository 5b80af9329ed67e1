"""Stages: parallel warping."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.models.checks import kept_by
from vrtspike.models.stages import Stage
from vrtspike.models.vrt import VRT


def test_warping_is_fused_and_recomputed_if_set(
    small_vrt: Callable[..., VRT],
) -> None:
    stage = small_vrt().get_submodule("stage2")
    assert isinstance(stage, Stage)
    torch.manual_seed(0)
    for parameter in stage.pa_deform.conv_offset[-1].parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = torch.randn(1, 3, 6, 5, 8, requires_grad=True)
    flows = torch.randn(4, 2, 6, 5, requires_grad=True)
    expected = stage.pa_fuse(torch.cat((x, stage.pa_deform(x, flows)), dim=-1))
    leaves = [x, flows, *stage.pa_deform.parameters(), *stage.pa_fuse.parameters()]
    grad = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, leaves, grad)
    kept = []
    for again in (False, True):
        stage.warping.recompute = again
        kept.append(sum(t.numel() for t in kept_by(lambda: stage.align(x, flows)).values()))
        result = stage.align(x, flows)
        assert torch.equal(result, expected)
        pairs = zip(torch.autograd.grad(result, leaves, grad), gradients, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    assert kept[1] == x.numel() + flows.numel() < kept[0]
    # The warping has no parameters of its own: names are those of the published weights.
    assert not list(stage.warping.parameters())
