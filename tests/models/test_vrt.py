"""The backbone as a whole, on small models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vrtspike.models.layers import DropPath
from vrtspike.models.stages import TMSABlock
from vrtspike.models.vrt import VRT

Build = Callable[..., VRT]


def gradients(vrt: VRT, x: Tensor) -> dict[str, Tensor]:
    vrt.zero_grad()
    vrt(x).square().mean().backward()
    return {name: p.grad.clone() for name, p in vrt.named_parameters() if p.grad is not None}


def test_without_flow_and_alignment(small_vrt: Build) -> None:
    vrt = small_vrt(pa_frames=0)
    assert not any("spynet" in name or "pa_" in name for name, _ in vrt.named_parameters())
    x = torch.rand(1, 3, 3, 16, 16)
    assert gradients(vrt, x).keys() == {name for name, _ in vrt.named_parameters()}
    assert vrt(x).shape == x.shape


def test_samples_of_a_batch_are_independent(small_vrt: Build) -> None:
    vrt = small_vrt()
    x = torch.rand(3, 3, 3, 16, 24)
    with torch.no_grad():
        together = vrt(x)
        alone = torch.cat([vrt(sample[None]) for sample in x])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("attn", "ffn"), [(True, False), (False, True), (True, True)])
def test_recomputation_changes_no_bit_of_a_gradient(
    small_vrt: Build, attn: bool, ffn: bool
) -> None:
    x = torch.rand(2, 3, 3, 16, 16)
    options: dict[str, Any] = {"drop_path_rate": 0.5}
    kept = small_vrt(**options)
    recomputed = small_vrt(use_checkpoint_attn=attn, use_checkpoint_ffn=ffn, **options)
    torch.manual_seed(1)
    expected = gradients(kept, x)
    torch.manual_seed(1)
    result = gradients(recomputed, x)
    assert all(torch.equal(expected[name], result[name]) for name in expected)


def test_training_after_inference_mode(small_vrt: Build) -> None:
    vrt = small_vrt()
    x = torch.rand(1, 2, 3, 16, 16)
    with torch.inference_mode():
        vrt(x)
    assert gradients(vrt, x)


@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 2, 4, 16, 16), (1, 0, 3, 16, 16)])
def test_wrong_shapes_are_refused(small_vrt: Build, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected a clip"):
        small_vrt()(torch.rand(shape))


def test_arguments_of_blocks_and_stages(small_vrt: Build) -> None:
    vrt = small_vrt(
        depths=(4, 2, 1, 1, 1, 1, 2, 2, 1),
        window_size=(3, 4, 8),
        drop_path_rate=0.28,
        mul_attn_ratio=0.75,
    )
    mutual, windows = [], []
    for name, module in vrt.named_modules():
        if isinstance(module, TMSABlock) and name.startswith("stage1."):
            mutual.append(module.attn.mutual)
            windows.append(module.attn.window)
    # From 0 for the first of the 15 blocks to the given rate for the last, in equal steps.
    kept = [float(module.kept) for module in vrt.modules() if isinstance(module, DropPath)]
    assert kept == pytest.approx([1 - 0.28 * i / 14 for i in range(15)])
    assert mutual == [True, True, True, False]
    assert windows == [*[(2, 4, 8)] * 3, (3, 4, 8)]
    stages = [vrt.get_submodule(f"stage{n}") for n in range(1, 8)]
    bounds = [stage.pa_deform.max_magnitude for stage in stages]
    assert bounds == [10, 5, 2.5, 1.25, 2.5, 5, 10]
    eighth = [vrt.get_submodule(f"stage8.{n}.residual_group.blocks.0.attn") for n in (1, 2)]
    assert [attn.window for attn in eighth] == [(3, 4, 8), (1, 4, 8)]


def test_spikes_are_fused_after_the_first_four_stages(small_vrt: Build) -> None:
    vrt = small_vrt()
    shapes: list[tuple[int, tuple[int, ...]]] = []

    def fuse(scale: int, x: Tensor) -> Tensor:
        shapes.append((scale, tuple(x.shape)))
        return x + 1

    x = torch.rand(1, 2, 3, 16, 24)
    nn.init.normal_(vrt.conv_last.weight)
    assert not torch.equal(vrt(x, fuse), vrt(x)), "what it returns takes the place"
    assert shapes == [(s, (1, 2, 16 // 2**s, 24 // 2**s, 8)) for s in range(4)]
