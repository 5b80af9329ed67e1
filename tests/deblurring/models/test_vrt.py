"""The backbone as a whole, on small models."""

from __future__ import annotations

from collections.abc import Callable
from shutil import which
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from vrtspike.deblurring.models import stages
from vrtspike.deblurring.models.attention import BlockOptions
from vrtspike.deblurring.models.block_compiling import compile_blocks
from vrtspike.deblurring.models.layers import Branch
from vrtspike.deblurring.models.recomputation import Recompute
from vrtspike.deblurring.models.tmsa import TMSABlock, TMSAGroup
from vrtspike.deblurring.models.token_ops import project_normalised
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import VRTSpike
from vrtspike.deblurring.models.windows import (
    PlanCache,
    build_plan,
    clip_window,
    relative_position_index,
)
from vrtspike.errors import ConfigError

Build = Callable[..., VRT]


def gradients(vrt: VRT, x: Tensor) -> dict[str, Tensor]:
    vrt.zero_grad()
    vrt(x).square().mean().backward()
    return {name: p.grad.clone() for name, p in vrt.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("frames", [1, 2, 3, 6, 18])
def test_any_clip_length(small_vrt: Build, frames: int) -> None:
    x = torch.rand(1, frames, 3, 16, 16)
    y = small_vrt()(x)
    assert y.shape == x.shape
    assert torch.isfinite(y).all()


@pytest.mark.parametrize("size", [(17, 31), (8, 8), (1, 1), (3, 40)])
def test_any_picture_size(small_vrt: Build, size: tuple[int, int]) -> None:
    x = torch.rand(1, 2, 3, *size)
    assert small_vrt()(x).shape == x.shape


def test_without_flow_and_alignment(small_vrt: Build) -> None:
    vrt = small_vrt(pa_frames=0)
    assert not any("spynet" in name or "pa_" in name for name, _ in vrt.named_parameters())
    x = torch.rand(1, 3, 3, 16, 16)
    assert gradients(vrt, x).keys() == {name for name, _ in vrt.named_parameters()}
    assert vrt(x).shape == x.shape


def test_windows_that_do_not_divide_the_picture(small_vrt: Build) -> None:
    x = torch.rand(1, 3, 3, 16, 24)
    expected = gradients(small_vrt(window_size=(3, 3, 5), attention="explicit"), x)
    found = gradients(small_vrt(window_size=(3, 3, 5), recompute="none"), x)
    for name, grad in expected.items():
        assert (found[name] - grad).norm() <= 1e-3 * grad.norm() + 1e-7, name


def test_samples_of_a_batch_do_not_meet(small_vrt: Build) -> None:
    vrt = small_vrt()
    x = torch.rand(3, 3, 3, 16, 24)
    with torch.no_grad():
        together = vrt(x)
        alone = torch.cat([vrt(sample[None]) for sample in x])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_every_parameter_gets_a_gradient(small_vrt: Build) -> None:
    vrt = small_vrt()
    for _, parameter in vrt.named_parameters():
        if not parameter.any():  # flow and offsets start at zero, and with them what is before
            torch.nn.init.normal_(parameter, std=0.05)
    found = gradients(vrt, torch.rand(1, 3, 3, 16, 16))
    assert found.keys() == {name for name, _ in vrt.named_parameters()}
    assert not [name for name, grad in found.items() if not grad.any()]


@pytest.mark.parametrize("recompute", ["none", "cheap"])
@pytest.mark.parametrize(("attn", "ffn"), [(True, False), (False, True), (True, True)])
def test_checkpointing_changes_no_bit_of_a_gradient(
    small_vrt: Build, recompute: str, attn: bool, ffn: bool
) -> None:
    x = torch.rand(1, 3, 3, 16, 16)
    options: dict[str, Any] = {"recompute": recompute, "drop_path_rate": 0.5}
    kept = small_vrt(**options)
    checkpointed = small_vrt(use_checkpoint_attn=attn, use_checkpoint_ffn=ffn, **options)
    torch.manual_seed(1)
    expected = gradients(kept, x)
    torch.manual_seed(1)
    found = gradients(checkpointed, x)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("attn", [False, True])
@pytest.mark.parametrize("ffn", [False, True])
def test_a_dropped_branch_is_not_computed(attn: bool, ffn: bool) -> None:
    block = TMSABlock(
        8,
        (2, 4, 4),
        2,
        mutual=True,
        mlp_ratio=2.0,
        drop_path=0.5,
        options=BlockOptions("explicit", attn, ffn),
    )
    size = (2, 4, 4)
    plans = [
        build_plan(clip_window(size, (2, 4, 4), shifted=False, mutual=mutual), torch.device("cpu"))
        for mutual in (False, True)
    ]
    x = torch.rand(2, *size, 8, requires_grad=True)
    index = relative_position_index((2, 4, 4))

    def results(first: Branch, second: Branch) -> list[Tensor]:
        out = block(x, index, plans[0], plans[1], (first, second))
        grads = torch.autograd.grad(out.square().sum(), [x, *block.parameters()])
        return [out, *grads]

    nothing, half = torch.zeros(2), torch.tensor([0.0, 2.0])
    for first, second in ((nothing, half), (half, nothing), (nothing, nothing)):
        computed = results(Branch(first, False), Branch(second, False))
        skipped = results(Branch(first, not first.any()), Branch(second, not second.any()))
        assert all(torch.equal(a, b) for a, b in zip(computed, skipped, strict=True))
    with torch.no_grad():
        block.attn.forward = block.mlp.forward = None  # type: ignore[assignment]
        assert torch.equal(block(x, index, *plans, (Branch(nothing, True),) * 2), x)


def test_policies_and_implementations_agree(small_vrt: Build) -> None:
    x = torch.rand(1, 3, 3, 16, 16)
    expected = gradients(small_vrt(recompute="none", attention="explicit"), x)
    for options in (
        {"recompute": "cheap", "attention": "explicit"},
        {"recompute": "cheap", "attention": "recompute"},
        {"recompute": "none", "attention": "fused"},
    ):
        found = gradients(small_vrt(**options), x)
        for name, grad in expected.items():
            assert (found[name] - grad).norm() <= 1e-3 * grad.norm() + 1e-7, (options, name)


def test_layers_between_stages_are_the_same_in_one_pass(
    small_vrt: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.rand(2, 3, 3, 16, 16)
    taken: list[tuple[int, int]] = []

    def project(x: Tensor, norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
        taken.append((layer.in_features, layer.out_features))
        return project_normalised(x, norm, layer)

    def changed() -> VRT:
        vrt = small_vrt()
        for module in vrt.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
        return vrt

    expected = gradients(changed(), x)
    monkeypatch.setattr(stages, "project_normalised", project)
    monkeypatch.setattr(stages, "has_kernels", lambda _: True)
    found = gradients(changed(), x)
    # Changes of scale up, the start of stage 8, and its end.
    assert taken == [(2, 8)] * 3 + [(8, 12), (12, 8)]
    for name, grad in expected.items():
        assert (found[name] - grad).norm() <= 1e-3 * grad.norm() + 1e-7, name


def test_less_is_kept_by_checkpointing(small_vrt: Build) -> None:
    def kept(**options: Any) -> int:
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        vrt = small_vrt(**options)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = vrt(torch.rand(1, 4, 3, 32, 32))
        assert result.requires_grad
        return sum(sizes.values())

    everything = kept(attention="explicit", recompute="none")
    default = kept()
    both = kept(use_checkpoint_attn=True, use_checkpoint_ffn=True)
    assert both < default < everything


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(small_vrt: Build, dtype: torch.dtype) -> None:
    vrt = small_vrt()
    x = torch.rand(1, 2, 3, 8, 8)
    with torch.no_grad():
        exact = vrt(x)
    with torch.autocast("cpu", dtype=dtype):
        half = vrt(x)
    half.float().square().mean().backward()
    assert (half.float() - exact).abs().max() < 0.05
    assert all(torch.isfinite(p.grad).all() for p in vrt.parameters() if p.grad is not None)


def test_training_after_inference_mode(small_vrt: Build) -> None:
    vrt = small_vrt()
    x = torch.rand(1, 2, 3, 16, 16)
    with torch.inference_mode():
        vrt(x)
    assert gradients(vrt, x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recompute", "mutual", "backend"),
    [
        # The graphs are captured as for the real compiler and run without it.
        pytest.param("none", True, "aot_eager", marks=pytest.mark.endurance),
        pytest.param(
            "cheap",
            False,
            "inductor",
            marks=pytest.mark.skipif(which("g++") is None, reason="needs a C++ compiler"),
        ),
    ],
)
def test_compiled_blocks_with_checkpointing(
    recompute: Recompute, mutual: bool, backend: str
) -> None:
    def group() -> TMSAGroup:
        torch.manual_seed(0)
        return TMSAGroup(
            8,
            (2, 4, 4),
            2,
            mutual=mutual,
            mlp_ratio=2.0,
            drop_path=(0.0,),
            options=BlockOptions("auto", True, True, recompute),
            plans=PlanCache(),
        )

    plain, compiled = group(), group()
    assert compile_blocks(compiled, backend=backend) == 1
    x = torch.rand(1, 3, 8, 8, 8)
    for module in (plain, compiled):
        module(x).square().mean().backward()
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.endurance
@pytest.mark.slow
def test_every_block_runs_compiled(small_vrt: Build) -> None:
    # More kinds of block than PyTorch compiles unasked.
    vrt = small_vrt(depths=(4,) * 2 + (2,) * 7, drop_path_rate=0.2, use_checkpoint_ffn=True)
    graphs, runs = 0, 0
    torch.compiler.reset()  # graphs of other tests

    def counting(graph: GraphModule, _: object) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1

        def run(*inputs: Any) -> Any:
            nonlocal runs
            runs += 1
            return graph(*inputs)

        return run

    blocks = compile_blocks(vrt, backend=counting)
    with torch.no_grad():
        vrt(torch.rand(1, 3, 3, 32, 32))
    assert runs == blocks
    assert 8 < graphs < blocks


@pytest.mark.endurance
@pytest.mark.slow
def test_export(small_vrt: Build) -> None:
    shallow = {"depths": (1,) * 8, "embed_dims": (8,) * 8, "num_heads": (2,) * 8}
    model = VRTSpike(small_vrt(indep_reconsts=(), **shallow), bins=4).eval()
    x, voxels = torch.rand(1, 2, 3, 16, 16), torch.rand(1, 2, 4, 16, 16)
    program = torch.export.export(model, (x, voxels), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x, voxels), model(x, voxels))
        # Plans made while tracing must not stay behind in the model.
        assert model(x[..., :8], voxels[..., :8]).shape == (1, 2, 3, 16, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pa_frames": 4}, "pa_frames is 4"),
        ({"depths": (2,) * 7}, "depths has 7 entries"),
        ({"embed_dims": (8,) * 8}, "embed_dims has 8 entries"),
        ({"num_heads": (2,) * 10}, "num_heads has 10 entries"),
        ({"embed_dims": (8,) * 7 + (12, 16)}, "same width"),
        ({"num_heads": (3,) * 9}, "no multiple of num_heads"),
        ({"deformable_groups": 3}, "deformable_groups"),
        ({"embed_dims": (10,) * 7 + (12,) * 2}, "multiple of 4"),
        ({"embed_dims": (8, 8, 8, 8, 8, 16, 8, 12, 12)}, "must be equal"),
        ({"window_size": (2, 0, 4)}, "window_size"),
        ({"window_size": 8}, "window_size is 8"),
        ({"depths": (-1,) + (1,) * 8}, "depths has an entry -1"),
        ({"embed_dims": (0,) * 9}, "embed_dims has an entry 0"),
        ({"num_heads": (0,) * 9}, "num_heads has an entry 0"),
        ({"deformable_groups": 0}, "deformable_groups is 0"),
        ({"mul_attn_ratio": 1.5}, "mul_attn_ratio is 1.5"),
        ({"mlp_ratio": 0.1}, "hidden layer would be empty"),
        ({"drop_path_rate": 1.0}, "drop_path_rate is 1.0"),
        ({"indep_reconsts": (1, 8)}, r"indep_reconsts names \[1\]"),
        ({"attention": "flash"}, "unknown attention implementation 'flash'"),
        ({"recompute": "all"}, "unknown recomputation policy 'all'"),
    ],
)
def test_impossible_arguments_are_refused(
    small_vrt: Build, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        small_vrt(**changes)


@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (1, 2, 4, 16, 16), (1, 0, 3, 16, 16)])
def test_wrong_shapes_are_refused(small_vrt: Build, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected a clip"):
        small_vrt()(torch.rand(shape))
