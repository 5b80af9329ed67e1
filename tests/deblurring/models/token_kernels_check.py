"""Compares the Triton kernels of token layers with their definitions, in Triton's interpreter.

A program of its own because Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from vrtspike.deblurring.models import attention as attention_layer
from vrtspike.deblurring.models import tmsa
from vrtspike.deblurring.models.attention import BlockOptions
from vrtspike.deblurring.models.block_compiling import compile_blocks
from vrtspike.deblurring.models.chunking import ChunkPolicy
from vrtspike.deblurring.models.layers import GEGLU, Branch
from vrtspike.deblurring.models.temporal_attention import SpikeTemporalSA, TemporalCrossAttn
from vrtspike.deblurring.models.tmsa import TMSAGroup
from vrtspike.deblurring.models.token_ops import feed_forward, gate_agreement, linear, residual
from vrtspike.deblurring.models.token_ops.agreement import largest_difference, projections
from vrtspike.deblurring.models.token_ops.input_projections import triton_projections
from vrtspike.deblurring.models.token_ops.maps import layout
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward
from vrtspike.deblurring.models.token_ops.weight_gradients import Product, summed
from vrtspike.deblurring.models.window_attention import choice
from vrtspike.deblurring.models.windows import PlanCache, clip_window

# Channels, map and window: several blocks of rows and a part of one, with a frame, rows and columns
# to be padded; one frame, whose padded maps differ; the widths of the published model.
SIZES = (
    (16, (3, 7, 9), (2, 4, 4)),
    (24, (1, 8, 12), (2, 8, 8)),
    (96, (3, 4, 4), (2, 4, 4)),
    (120, (1, 5, 5), (2, 4, 4)),
)
# The interpreter cannot multiply matrices of bfloat16.
TRIALS = {torch.float32: (1e-5, SIZES), torch.float16: (2e-3, SIZES[1:])}
BRANCHES = [
    (Branch(None, False),) * 2,
    tuple(Branch(torch.tensor(factors), False) for factors in ([1.5, 0.0], [0.0, 1.25])),
]


def main() -> int:
    # Memory that nobody has written holds NaN, so what is read of it shows.
    torch.use_deterministic_algorithms(True)
    choice.triton_runs = lambda *_: True
    agrees = True
    for dtype, (tolerance, sizes) in TRIALS.items():
        difference = largest_difference(torch.device("cpu"), dtype, sizes)
        print(f"{dtype}: {difference:.2e} of the norm")
        agrees &= difference < tolerance
        difference = gate_agreement.largest_difference(torch.device("cpu"), dtype)
        print(f"{dtype}, gate: {difference:.2e} of the norm")
        agrees &= difference < tolerance
    for attention in ("explicit", "triton"):
        for switches in ((False, False, False), (True, False, False), (True, True, True)):
            difference = of_blocks(attention, *switches)
            print(f"blocks, {attention}, recomputed, compiled {switches}: {difference:.2e}")
            agrees &= difference < 1e-5
    # In half precision a projection and the layer after it are one kernel.
    for again in (False, True):
        difference = of_blocks("triton", again, again, False, half=True)
        print(f"blocks, float16, recomputed {again}: {difference:.2e}")
        agrees &= difference < 5e-3
    difference = of_blocks("triton", False, False, False, parameters=torch.float16)
    print(f"blocks, parameters of float16: {difference:.2e}")
    agrees &= difference < 1e-2
    for kind, inputs in ((SpikeTemporalSA, 1), (TemporalCrossAttn, 2)):
        for half, tolerance in ((False, 1e-5), (True, 5e-3)):
            difference = along_time(kind, inputs, half=half)
            print(f"{kind.__name__}, float16 {half}: {difference:.2e}")
            agrees &= difference < tolerance
    difference = of_sums()
    print(f"sums: {difference:.2e}")
    agrees &= difference < 1e-6
    difference = of_projections()
    print(f"projections: {difference:.2e}")
    agrees &= difference < 1e-5
    difference = of_small_codes()
    print(f"codes: {difference:.2e}")
    agrees &= difference < 2e-3
    difference = of_recomputed_gate()
    print(f"gate made again: {difference:.2e}")
    agrees &= difference < 1e-5
    finite = is_finite_at_the_edge_of_float16()
    print(f"finite: {finite}")
    rounded = rounding_of_biases()
    print(f"biases: {rounded:.2e}")
    return int(not (agrees and finite and rounded < 5e-5))


def is_finite_at_the_edge_of_float16() -> bool:
    """Tokens of nearly one value: over their small deviation their mean exceeds float16."""
    torch.manual_seed(0)
    norm, mlp = torch.nn.LayerNorm(24), GEGLU(24, 48)
    x = (300 + 1e-4 * torch.randn(1, 3, 5, 7, 24)).requires_grad_()
    with torch.autocast("cpu", torch.float16):
        out = triton_feed_forward(x, norm, mlp)
    grads = torch.autograd.grad(out.float().sum(), [x, *norm.parameters(), *mlp.parameters()])
    return all(bool(t.isfinite().all()) for t in (out, *grads))


def rounding_of_biases() -> float:
    """What rounding a bias to float16 would leave out of all hidden channels' sum: 3e-4 of it.

    Products of gate and value are rounded, too, but up and down.
    """
    torch.manual_seed(0)
    norm, mlp, x = torch.nn.LayerNorm(24), GEGLU(24, 256), torch.randn(1, 1, 4, 4, 24)
    values = 1 + torch.randint(1024, (256,)) / 1024
    with torch.no_grad():
        for layer in (mlp.fc11, mlp.fc12):
            layer.weight.zero_()
        mlp.fc11.bias.fill_(11.0035)  # between two numbers of float16; GELU leaves it as it is
        mlp.fc12.bias.copy_(values)
        mlp.fc2.weight.fill_(1 / 256)
        mlp.fc2.bias.zero_()
        with torch.autocast("cpu", torch.float16):
            out = triton_feed_forward(x, norm, mlp)
    expected = 11.0035 * values.mean()
    return ((out - x) / expected - 1).abs().max().item()


def of_sums() -> float:
    """The largest difference of sums over more rows and lines than a program takes at a time."""
    torch.manual_seed(0)
    channels, keep, lines = 16, torch.tensor([1.25, 0.0, 0.5]), torch.randn(150, 40)
    found, expected = [], []
    for outputs in (24, 72):
        left, right = torch.randn(3, 140, outputs), torch.randn(3, 150, channels + 8)
        right[..., channels] = 1
        plain = right[..., :channels].contiguous()
        # The second is a weight's transpose, without a bias.
        weight, second = (
            torch.einsum("bro,brc->oc", left[:, :n], plain[:, :n] * (keep != 0).view(3, 1, 1))
            for n in (130, 140)
        )
        bias = left[keep != 0, :130].sum((0, 1))
        size = outputs * (channels + 1)
        one = Product(left, right, 130, 0, channels)
        two = Product(left, plain, 140, size, 1, outputs)
        parts = [weight.flatten(), bias, second.t().flatten(), lines.sum(0)]
        found.append(summed((one,), lines, keep, channels, size))
        found.append(summed((one, two), lines, keep, channels, size + second.numel()))
        expected += [torch.cat((*parts[:2], parts[3])), torch.cat(parts)]
    return largest_share(found, expected)


def of_projections() -> float:
    """The largest difference of projections for windows of 7, which are shifted by three.

    Gradients lie channels first; where none is handed through, the projections' is the tokens'.
    """
    torch.manual_seed(0)
    channels, size = 16, (2, 8, 15)
    windows = tuple(clip_window(size, (2, 7, 7), shifted=True, mutual=m) for m in (False, True))
    norm, own, mutual = (
        torch.nn.LayerNorm(channels),
        *(torch.nn.Linear(channels, 3 * channels) for _ in range(2)),
    )
    code, x = torch.randn(49, channels), torch.randn(1, *size, channels, requires_grad=True)
    leaves = [x, *norm.parameters(), *own.parameters(), *mutual.parameters()]
    found, expected = [], []
    for streams in (0, 2):
        gradients: list[Tensor] = []
        for results, kind, maps in (
            (found, triton_projections, layout(*windows)),
            (expected, projections, windows),
        ):
            through, *both = kind(x, norm, own, mutual, code, maps)
            outs = [*through[:streams], *both]
            if not gradients:
                shapes = [t.movedim(-1, 1).shape for t in outs]
                gradients = [torch.randn(shape).movedim(1, -1) for shape in shapes]
            results += [t.detach() for t in outs] + [*torch.autograd.grad(outs, leaves, gradients)]
    return largest_share(found, expected)


def of_small_codes() -> float:
    """The largest difference where half precision would leave nothing of what codes make."""
    torch.manual_seed(0)
    channels, size = 16, (2, 4, 4)
    windows = tuple(clip_window(size, size, shifted=False, mutual=m) for m in (False, True))
    norm, layer = torch.nn.LayerNorm(channels), torch.nn.Linear(channels, 3 * channels)
    code = 10 + 1e-3 * torch.rand(16, channels)
    with torch.no_grad():
        norm.weight.zero_()
        layer.bias.zero_()
        layer.weight.copy_(torch.tensor([1.0, -1.0]).repeat(3 * channels, channels // 2))
        x = torch.randn(1, *size, channels)
        with torch.autocast("cpu", torch.float16):
            found = triton_projections(x, norm, layer, layer, code, layout(*windows))[2]
        expected = projections(x, norm, layer, layer, code, windows)[2]
        return largest_share([found.float()], [expected])


class Recomputed(torch.nn.Module):
    """A gated layer that keeps its input alone."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = GEGLU(24, 40, 16)

    def forward(self, x: Tensor) -> Tensor:
        return feed_forward.gated(x, self.mlp, keep_hidden=False)


def of_recomputed_gate() -> float:
    """The largest difference of a layer whose gate is made again by the kernels' backward pass."""
    torch.manual_seed(0)
    layer, x = Recomputed(), torch.randn(2, 3, 5, 7, 24)
    expected, found = (results(layer, x, own_kernels=own) for own in (False, True))
    return largest_share(found, expected)


def largest_share(found: list[Tensor], expected: list[Tensor]) -> float:
    shares = [(a - b).norm() / b.norm() for a, b in zip(found, expected, strict=True)]
    return torch.stack(shares).max().item()


def along_time(kind: type[torch.nn.Module], inputs: int, *, half: bool) -> float:
    """The largest difference of attention along time by own kernels from that by plain layers."""
    channels, policy = 16, ChunkPolicy()
    options = {"identity": False} if inputs == 2 else {}
    layer = kind(channels, 2, 4, policy, implementation="explicit", **options)
    torch.manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    given = [torch.randn(2, 3, 5, 7, channels) for _ in range(inputs)]
    expected = results(layer, *given, own_kernels=False)
    return largest_share(results(layer, *given, own_kernels=True, half=half), expected)


class Around(torch.nn.Module):
    """Blocks with a linear layer and a residual around them."""

    def __init__(self, group: TMSAGroup) -> None:
        super().__init__()
        self.group, self.linear = group, torch.nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.group(x, self.linear)


class PlainlyAround(Around):
    """The definition of it."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.group(x))


def of_blocks(
    attention: str,
    attn: bool,
    ffn: bool,
    compiled: bool,
    *,
    half: bool = False,
    parameters: torch.dtype = torch.float32,
) -> float:
    """The largest difference of two blocks, results and gradients, from plain layers."""
    size, channels = (3, 5, 7), 16
    expected, group = (
        kind(
            TMSAGroup(
                channels,
                (2, 4, 4),
                2,
                mutual=True,
                mlp_ratio=2.0,
                drop_path=(0.0, 0.0),
                options=BlockOptions(name, attn, ffn, "none"),
                plans=PlanCache(),
            )
        )
        for kind, name in ((PlainlyAround, "explicit"), (Around, attention))
    )
    torch.manual_seed(0)
    for parameter in expected.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    group.to(parameters).load_state_dict(expected.state_dict())
    x = torch.randn(2, *size, channels)
    expected = results(expected, x, own_kernels=False)
    if compiled:
        compile_blocks(group, backend="eager")
    return largest_share(results(group, x, own_kernels=True, half=half), expected)


def results(
    layer: torch.nn.Module, *inputs: Tensor, own_kernels: bool, half: bool = False
) -> list[Tensor]:
    for module in (attention_layer, tmsa, residual, linear):
        module.has_kernels = lambda _: own_kernels
    # Both blocks, the second with shifted windows and samples that each drop a branch of it.
    tmsa.draw_branches = lambda *_: BRANCHES
    feed_forward.has_gate = lambda *_: own_kernels
    dtype = next(layer.parameters()).dtype
    leaves = [x.to(dtype).clone().requires_grad_() for x in inputs]
    layer.zero_grad()
    with torch.autocast("cpu", torch.float16, enabled=half):
        out = layer(*leaves)
    out.float().square().mean().backward()
    grads = [t.grad for t in (*leaves, *layer.parameters())]
    return [out.detach().float(), *(grad.float() for grad in grads if grad is not None)]


if __name__ == "__main__":
    sys.exit(main())
