"""How fast is a GPU, and how much memory does it take? Parts of ``gpu.py``.

Presets and implementations that are compared take turns, so that a slow moment is shared by all.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from gpu_checks import relative
from gpu_parts import Figures, Place
from model_step import GIB, PRECISIONS, autocast, installed, kept_bytes, loss, matrix_rate
from preset_values import EXPLICIT, defined, load
from presets import PRESETS, build, inputs
from torch import Tensor, nn

from vrtspike.deblurring.models.deform import deform_by_kernel, guided_deform_conv
from vrtspike.deblurring.models.layers import GEGLU
from vrtspike.deblurring.models.token_ops import agreement, normalised_geglu, normalised_linear
from vrtspike.deblurring.models.token_ops.input_projections import triton_projections
from vrtspike.deblurring.models.token_ops.maps import layout
from vrtspike.deblurring.models.token_ops.triton_feed_forward import triton_feed_forward
from vrtspike.deblurring.models.window_attention.choice import (
    IMPLEMENTATIONS,
    choose_implementation,
)
from vrtspike.deblurring.models.windows import Size3, build_plan, clip_window
from vrtspike.monitoring.clocks import clock_for

NOTHING_CHECKPOINTED = (
    "MODEL.VRT.USE_CHECKPOINT_ATTN=false",
    "MODEL.VRT.USE_CHECKPOINT_FFN=false",
)
# Beside the presets: `baseline` with less recomputation.
VARIANTS = {
    "baseline, no checkpointing": (*NOTHING_CHECKPOINTED, "MODEL.VRT.RECOMPUTE=cheap"),
    "baseline, nothing recomputed": (*NOTHING_CHECKPOINTED, "MODEL.VRT.RECOMPUTE=none"),
}
# Beside which a third kind takes its turns, without any kernel of our own.
BESIDE_DEFINITIONS = "fast"
ROUNDS = 4
PROFILED = 40
SMI = (
    "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,power.limit,"
    "temperature.gpu,memory.total,compute_mode"
)


def machine(place: Place) -> Figures:
    """What the device is, its driver and clocks, and what it reaches in copies and products."""
    yield (
        "versions",
        {name: installed(name) for name in ("torch", "torchvision", "triton", "numpy")},
    )
    yield "python", platform.python_version()
    device = place.device
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        yield (
            "device",
            {
                "name": about.name,
                "capability": f"{about.major}.{about.minor}",
                "memory GiB": about.total_memory / GIB,
                "multiprocessors": about.multi_processor_count,
                "devices": torch.cuda.device_count(),
            },
        )
        yield "cuda", {"torch": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        yield "idle", smi()
    elements = 1 << (16 if place.small else 29)
    source = torch.randn(elements, device=device)
    target = torch.empty_like(source)
    ms = milliseconds(device, lambda: target.copy_(source))
    yield "copy GB/s, read and written", 2 * source.numel() * 4 / ms / 1e6
    for name, dtype in PRECISIONS.items():
        if not place.small:
            yield f"TFLOP/s, {name}", matrix_rate(device, dtype) / 1e12
    if device.type == "cuda":
        yield "at work", smi()


def smi() -> dict[str, str]:
    """Clocks, power and driver, as the driver's own program tells; empty without it."""
    command = ["nvidia-smi", f"--query-gpu={SMI}", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return {}
    first = found.stdout.splitlines()[0]
    values = [value.strip() for value in first.split(",")]
    return dict(zip(SMI.split(","), values, strict=True))


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(device: torch.device, call: Callable[[], object], repeats: int = 10) -> float:
    """Mean time of a call among others of its kind, after two that are not counted."""
    for _ in range(2):
        call()
    clock = clock_for(device)
    start = clock.mark()
    for _ in range(repeats):
        call()
    end = clock.mark()
    clock.wait(end)
    return clock.milliseconds(start, end) / repeats


Kind = tuple[str, tuple[str, ...], Callable[[], AbstractContextManager[None]]]
"""A preset, overrides, and what makes the context in which a step runs."""


class Step:
    """A preset's model with a clip, and its training step without the optimiser.

    Args:
        place: where it runs.
        name: of the preset.
        overrides: of its settings.
        around: makes what the step runs in.
    """

    def __init__(
        self,
        place: Place,
        name: str,
        overrides: Sequence[str] = (),
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.around = around
        settings = load(name, overrides)
        data, train = settings.DATA, settings.TRAIN
        self.side = data.CROP_SIZE
        self.batch = train.BATCH_SIZE
        self.dtype = PRECISIONS[train.PRECISION]
        if place.small:
            self.side, self.batch, self.dtype = 32, 1, None
        self.device = place.device
        on_gpu = self.device.type == "cuda"
        self.before = torch.cuda.memory_allocated(self.device) if on_gpu else 0
        with place.device:
            self.model = build(settings, self.side)
            self.clips = inputs(settings, self.side, self.batch)

    def __call__(self) -> Tensor:
        """Forward and backward pass; the loss."""
        self.model.zero_grad(set_to_none=True)
        with self.around(), autocast(self.dtype, self.device):
            value = loss(self.model(*self.clips))
        with self.around():  # what was not kept is computed again
            value.backward()
        return value.detach()

    def memory(self) -> dict[str, float]:
        """What a step keeps, and on a GPU its peak beyond what was there before."""
        with self.around():
            found = {"kept GiB": kept_bytes(self.dtype, self.model, self.clips) / GIB}
        if self.device.type == "cuda":
            self.model.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
            self()
            peak = torch.cuda.max_memory_allocated(self.device)
            found["peak GiB"] = (peak - self.before) / GIB
        return found


def steps(place: Place) -> Figures:
    """Clips a second and memory of every preset, explicit attention beside it, in turns."""
    names = ("demo",) if place.small else PRESETS
    variants = {} if place.small else VARIANTS
    rows: list[tuple[str, str, tuple[str, ...]]] = [(name, name, ()) for name in names]
    rows += [(label, "baseline", overrides) for label, overrides in variants.items()]
    for label, name, overrides in rows:
        yield label, pair(place, name, overrides)
        if place.device.type == "cuda":
            torch.cuda.empty_cache()


def pair(place: Place, name: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """A preset as it is and with explicit attention; either may not fit into memory.

    One preset also without any kernel of our own, and with all that saves memory, as ``baseline``.
    """
    found: dict[str, Any] = {}
    explicit = (*overrides, EXPLICIT[0])
    kinds: dict[str, Kind] = {
        "own": (name, overrides, nullcontext),
        "explicit": (name, explicit, nullcontext),
    }
    if place.small or name == BESIDE_DEFINITIONS:
        kinds["definitions"] = (name if place.small else "baseline", EXPLICIT, defined)
    ready: dict[str, Step] = {}
    for kind, (preset, keys, around) in kinds.items():
        start = time.perf_counter()
        try:
            step = Step(place, preset, keys, around)
            with around():
                how = step.model.describe(place.device, step.dtype or torch.float32)
            found[kind] = {"clip": list(step.clips[0].shape), "computes": how, **step.memory()}
            ready[kind] = step
            step.model.zero_grad(set_to_none=True)
        except torch.OutOfMemoryError:
            found[kind] = {"reason": "out of memory"}
            torch.cuda.empty_cache()
        except Exception as error:  # the other kind still tells something
            found[kind] = {"agrees": False, "reason": f"{type(error).__name__}: {error}"[:1000]}
        found[kind]["first seconds"] = time.perf_counter() - start
    times: dict[str, list[float]] = {kind: [] for kind in ready}
    for _ in range(1 if place.small else ROUNDS):
        for kind, step in ready.items():
            synchronise(place.device)
            start = time.perf_counter()
            try:
                step()
                synchronise(place.device)
            except torch.OutOfMemoryError:
                found[kind]["reason"] = "out of memory beside the other"
                continue
            finally:
                step.model.zero_grad(set_to_none=True)
            times[kind].append(time.perf_counter() - start)
    for kind, seconds in times.items():
        if seconds:
            found[kind]["clips/s"] = ready[kind].batch / statistics.median(seconds)
            found[kind]["ms"] = [1e3 * value for value in seconds]
    own, *others = (found[kind].get("clips/s") for kind in kinds)
    for kind, speed in zip(list(kinds)[1:], others, strict=True):
        if own and speed:
            found[f"times {kind}"] = own / speed
    return found


def profile(place: Place) -> Figures:
    """The kernels of one step of ``baseline`` by the time they take, and what the host does."""
    for label, overrides in {"baseline": (), **({} if place.small else VARIANTS)}.items():
        step = Step(place, "demo" if place.small else "baseline", overrides)
        step()
        activities = [torch.profiler.ProfilerActivity.CPU]
        if place.device.type == "cuda":
            activities = [torch.profiler.ProfilerActivity.CUDA]
        synchronise(place.device)
        start = time.perf_counter()
        with torch.profiler.profile(activities=activities) as profiler:
            step()
            synchronise(place.device)
        wall = 1e3 * (time.perf_counter() - start)
        own = f"self_{'cpu' if place.small else 'device'}_time_total"
        found = profiler.key_averages()
        # Calls of the driver are listed, too, without time on the device.
        timed = (row for row in found if getattr(row, own) > 0)
        rows = sorted(timed, key=lambda row: getattr(row, own), reverse=True)
        yield (
            label,
            {
                "wall ms": wall,
                "ms": sum(getattr(row, own) for row in rows) / 1e3,
                "launches": sum(row.count for row in rows),
                "kernels": [
                    [row.key[:160], row.count, round(getattr(row, own) / 1e3, 3)]
                    for row in rows[:PROFILED]
                ],
            },
        )
        del step
        if place.device.type == "cuda":
            torch.cuda.empty_cache()


def forward_and_backward(
    device: torch.device, call: Callable[..., Tensor], leaves: Sequence[Tensor]
) -> dict[str, Any]:
    """Milliseconds of a call and of its backward pass."""
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            out = call(*leaves)
            forward = milliseconds(device, lambda: call(*leaves))
        grad = torch.randn_like(out)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        backward = milliseconds(
            device, lambda: torch.autograd.grad(out, wanted, grad, retain_graph=True)
        )
    except Exception as error:  # the other calls still tell something
        return {"reason": f"{type(error).__name__}: {error}"[:1000]}
    return {"forward ms": forward, "backward ms": backward}


def calls(place: Place) -> Figures:
    """One call each of attention, token layers and alignment, as at full resolution."""
    yield from attention_calls(place)
    yield from token_calls(place)
    yield from alignment_calls(place)


def attention_calls(place: Place) -> Figures:
    """Window attention, by the implementation of the presets and by the definition."""
    side = 16 if place.small else 256
    dtype = torch.float32 if place.small else torch.bfloat16
    cases: dict[str, tuple[Size3, bool, int]] = {
        "self 2x8x8": ((2, 8, 8), False, 96),
        "mutual 2x8x8": ((2, 8, 8), True, 96),
        "self 6x8x8": ((6, 8, 8), False, 96),
        "self 6x7x7": ((6, 7, 7), False, 96),
        "stage 8, 6x8x8": ((6, 8, 8), False, 120),
    }
    for name, (window, mutual, channels) in cases.items():
        for shifted in (False, True):
            geometry = clip_window((5, side, side), window, shifted=shifted, mutual=mutual)
            plan = build_plan(geometry, place.device)
            shape = (1, *geometry.padded, 3 * channels)
            qkv = torch.randn(shape, device=place.device, dtype=dtype).flatten(1, 3)
            qkv.requires_grad_()
            leaves = [qkv]
            if not mutual:
                tokens = plan.tokens
                bias = torch.randn(6, tokens, tokens, device=place.device, requires_grad=True)
                leaves.append(bias)
            own = choose_implementation("auto", place.device, dtype)
            for kind in dict.fromkeys((own, "explicit")):
                function = IMPLEMENTATIONS[kind]

                def call(qkv: Tensor, bias: Tensor | None = None) -> Tensor:
                    return function(qkv, bias, plan, 6)  # noqa: B023 - called before the next

                label = f"{name}{', shifted' if shifted else ''}, {kind}"
                yield label, forward_and_backward(place.device, call, leaves)


def token_calls(place: Place) -> Figures:
    """Norms and linear layers over all tokens, by operations, by kernels and by definitions."""
    channels, side = 96, 16 if place.small else 256
    windows = (
        clip_window((5, side, side), (6, 8, 8), shifted=True, mutual=False),
        clip_window((5, side, side), (2, 8, 8), shifted=True, mutual=True),
    )
    torch.manual_seed(0)
    with place.device:
        norm, mlp = nn.LayerNorm(channels), GEGLU(channels, 2 * channels)
        own, mutual = nn.Linear(channels, 3 * channels), nn.Linear(channels, 3 * channels)
        code = torch.randn(64, channels)
        x = torch.randn(1, 5, side, side, channels, requires_grad=True)
    linear, fed = [*norm.parameters(), *own.parameters()], [*norm.parameters(), *mlp.parameters()]
    tokens, maps = 5 * side**2, layout(*windows)

    def both(result: tuple[object, Tensor, Tensor]) -> Tensor:
        _, *parts = result
        return torch.cat([part.flatten() for part in parts])

    cases: dict[str, tuple[Callable[..., Tensor], list[nn.Parameter]]] = {
        "norm + linear": (
            lambda x, *_: normalised_linear(x.flatten(1, 3), norm, own, None, tokens),
            linear,
        ),
        "norm + linear, modules": (lambda x, *_: own(norm(x)), linear),
        "norm + GEGLU": (lambda x, *_: normalised_geglu(x, norm, mlp), fed),
        "norm + GEGLU, modules": (lambda x, *_: mlp(norm(x)), fed),
        "feed-forward with residual, kernels": (
            lambda x, *_: triton_feed_forward(x, norm, mlp),
            fed,
        ),
        "feed-forward with residual, modules": (
            lambda x, *_: agreement.feed_forward(x, norm, mlp, None),
            fed,
        ),
        "both projections, kernels": (
            lambda x, *_: both(triton_projections(x, norm, own, mutual, code, maps)),
            [*linear, *mutual.parameters()],
        ),
        "both projections, modules": (
            lambda x, *_: both(agreement.projections(x, norm, own, mutual, code, windows)),
            [*linear, *mutual.parameters()],
        ),
    }
    for name, (call, parameters) in cases.items():
        yield name, forward_and_backward(place.device, call, [x, *parameters])


def alignment_calls(place: Place) -> Figures:
    """Alignment of the four pairs of three frames, by kernels, definition and torchvision."""
    side, channels, groups = 16 if place.small else 256, 96, 16
    dtype = torch.float32 if place.small else torch.bfloat16
    torch.manual_seed(0)
    with place.device:
        x = torch.randn(4, channels, side, side, dtype=dtype, requires_grad=True)
        raw = torch.randn(4, groups * 27, side, side, dtype=dtype, requires_grad=True)
        flow = torch.randn(4, 2, side, side, requires_grad=True)
        weight = torch.randn(channels, channels, 3, 3).div_(30).requires_grad_()
        bias, shift = torch.zeros(channels, requires_grad=True), torch.zeros(9, 3, groups)
        clip = torch.randn(1, 3, side, side, channels, dtype=dtype, requires_grad=True)
        ordered = torch.randn(4, side, side, 9, 3, groups, dtype=dtype, requires_grad=True)
        offset = torch.randn(4, groups * 18, side, side, requires_grad=True)
        mask = torch.rand(4, groups * 9, side, side, requires_grad=True)
    yield (
        "alignment, kernels",
        forward_and_backward(
            place.device,
            lambda x, raw, shift, flow, weight, bias: deform_by_kernel(
                x, raw, shift, flow, weight, bias, 10.0
            ),
            [clip, ordered, shift, flow, weight, bias],
        ),
    )
    yield (
        "alignment, definition",
        forward_and_backward(
            place.device,
            lambda x, raw, flow, weight, bias: guided_deform_conv(x, raw, flow, weight, bias, 10.0),
            [x, raw, flow, weight, bias],
        ),
    )
    if installed("torchvision") is None:
        yield "alignment, torchvision", {"reason": "needs the package torchvision"}
        return
    from torchvision.ops import deform_conv2d

    yield (
        "alignment, torchvision",
        forward_and_backward(
            place.device,
            lambda x, offset, weight, bias, mask: deform_conv2d(
                x.float(), offset, weight, bias, padding=1, mask=mask
            ),
            [x, offset, weight, bias, mask],
        ),
    )


def graph(place: Place) -> Figures:
    """A micro-step as one CUDA graph beside the same one launched kernel by kernel."""
    # A capture that fails may spoil what comes after it: what is simplest comes first.
    for label, overrides in reversed({"baseline": (), **VARIANTS}.items()):
        yield label, captured(place, (*overrides, "MODEL.VRT.DROP_PATH_RATE=0.0"))
        torch.cuda.empty_cache()


def captured(place: Place, overrides: Sequence[str]) -> dict[str, Any]:
    """Capture a step, replay it, and compare loss, gradient and time."""
    step = Step(place, "baseline", overrides)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    expected = step()
    gradients = gradient(step.model)
    eager = milliseconds(place.device, step, ROUNDS)
    step.model.zero_grad(set_to_none=True)
    recorded = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(recorded):
            found = step()
    except Exception as error:  # what cannot be captured is worth knowing
        return {"agrees": False, "eager ms": eager, "reason": f"{type(error).__name__}: {error}"}
    recorded.replay()
    synchronise(place.device)
    differences = (relative(found, expected), relative(gradient(step.model), gradients))
    return {
        "agrees": differences[0] < 1e-2 and differences[1] < 5e-2,
        "reason": f"loss {differences[0]:.1e}, gradient {differences[1]:.1e} of the norm",
        "eager ms": eager,
        "graph ms": milliseconds(place.device, recorded.replay, ROUNDS),
    }


def gradient(model: nn.Module) -> Tensor:
    """All gradients in one row."""
    found = [p.grad.flatten().float() for p in model.parameters() if p.grad is not None]
    return torch.cat(found).clone()


def compiled(place: Place) -> Figures:
    """Steps with compiled blocks beside the same without, and how long compiling takes."""
    torch.manual_seed(0)
    cases = {
        "baseline": (),
        "baseline, nothing recomputed": VARIANTS["baseline, nothing recomputed"],
    }
    for label, overrides in cases.items():
        plain = Step(place, "baseline", (*overrides, "MODEL.VRT.DROP_PATH_RATE=0.0"))
        expected = plain()
        gradients = gradient(plain.model)
        eager = milliseconds(place.device, plain, ROUNDS)
        start = time.perf_counter()
        plain.model.compile(mode="default")
        found = plain()
        synchronise(place.device)
        seconds = time.perf_counter() - start
        differences = (relative(found, expected), relative(gradient(plain.model), gradients))
        yield (
            label,
            {
                "agrees": differences[0] < 1e-2 and differences[1] < 5e-2,
                "reason": f"loss {differences[0]:.1e}, gradient {differences[1]:.1e} of the norm",
                "eager ms": eager,
                "compiled ms": milliseconds(place.device, plain, ROUNDS),
                "compiling s": seconds,
            },
        )
        del plain
        torch.cuda.empty_cache()
