"""Do our own kernels compute what the references say, and how fast? Parts of ``gpu.py``.

Each case is one comparison of the library (``ops/*/operation.py``) at a shape of the presets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpu_parts import Figures, NotRun, Place
from vrtspike.deblurring.kernel_compilation import compile_ahead
from vrtspike.deblurring.models.ops.comparison import largest, relative_errors
from vrtspike.deblurring.models.ops.deform_conv import operation as deform_conv
from vrtspike.deblurring.models.ops.dispatch import TOLERANCES, Compute, Operation
from vrtspike.deblurring.models.ops.feed_forward import operation as feed_forward
from vrtspike.deblurring.models.ops.projections import operation as projections
from vrtspike.deblurring.models.ops.registry import OPERATIONS
from vrtspike.deblurring.models.ops.window_attention import operation as window_attention
from vrtspike.deblurring.models.ops.window_attention.windows import Size3, clip_window
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.weights import load_vrt
from vrtspike.deblurring.traced_step import trial_launches
from vrtspike.monitoring.clocks import clock_for

# Window, mutual, heads and channels of a head: of the published model at crops of 256, of the
# presets with windows of 7, and of the attention along time at each pixel.
ATTENTION: dict[str, tuple[Size3, bool, int, int]] = {
    "mutual, window 2x8x8": ((2, 8, 8), True, 6, 16),
    "self, window 2x8x8": ((2, 8, 8), False, 6, 16),
    "self, window 6x8x8": ((6, 8, 8), False, 6, 16),
    "self, window 6x8x8, 120 channels": ((6, 8, 8), False, 6, 20),
    "self, window 6x7x7": ((6, 7, 7), False, 6, 16),
    "self, window 1x8x8": ((1, 8, 8), False, 6, 16),
    "along time": ((5, 1, 1), False, 4, 24),
}
# Channels, with mutual attention; windows of 7 pad the maps, which takes plain layers.
PROJECTIONS = {
    "96 channels, self and mutual": (96, True),
    "96 channels, self": (96, False),
    "120 channels, self": (120, False),
}
# Channels, with a gate.
FEED_FORWARD = {
    "96 channels": (96, True),
    "96 channels, no gate": (96, False),
    "120 channels": (120, True),
}


Case = tuple[str, str, Callable[[], Sequence[float]]]
"""Name of the operation, name of the case, and what finds the differences of results and gradients
as shares of the norm."""


def cases(place: Place, side: int = 128) -> Iterator[Case]:
    """All cases on clips of 5 or 6 frames of ``side`` x ``side`` pixels; tiny without a GPU."""
    device, dtype, side = place.device, place.dtype, 8 if place.small else side
    for name, (window, mutual, heads, width) in ATTENTION.items():
        size: Size3 = window if place.small else (6, side, side)
        if name == "along time":
            size = (5, 16 if place.small else side * side // 8, 1)
        geometry = clip_window(size, window, shifted=name != "along time", mutual=mutual)
        attention = partial(
            window_attention.attention_differences,
            *(device, dtype, geometry, width),
            batch=1,
            heads=1 if place.small else heads,
        )
        yield "window_attention", f"attention, {name}", attention
    for name, (channels, mutual) in PROJECTIONS.items():
        case = (channels, (2 if place.small else 5, side, side), (2, 8, 8))
        for kind in ("input", "output"):
            compare = getattr(projections, f"{kind}_differences")
            projected = partial(compare, device, dtype, case, mutual=mutual, drops=False)
            yield "projections", f"{kind} projections, {name}", projected
    for name, (channels, gated) in FEED_FORWARD.items():
        fed = partial(
            feed_forward.feed_forward_differences,
            *(device, dtype, channels, 32 if place.small else 5 * side**2),
            gated=gated,
            drops=False,
        )
        yield "feed_forward", f"feed-forward, {name}", fed
    shape = (1, 2 if place.small else 5, 16, 6, 96, side, side)
    aligned = partial(deform_conv.deform_differences, device, dtype, shape)
    yield "deform_conv", "deformable convolution, 16 groups", aligned


def compile_kernels(place: Place) -> Figures:
    """Compile in parallel processes, as before a training, what later parts need."""
    told: list[str] = []
    start = time.perf_counter()
    launches = trial_launches([*OPERATIONS, *compared_operations(place)], place.device, place.dtype)
    yield "launches", len(launches)
    compile_ahead(launches, told.append)
    yield "told", told
    yield "seconds", time.perf_counter() - start


def compared_operations(place: Place) -> Iterator[Operation]:
    """Every case as an operation whose trial it is."""
    for name, _, run in cases(place):
        yield Operation(name, lambda *_, run=run: largest(run()))


def agreement(place: Place) -> Figures:
    """Every kernel against its reference: the trial before its first use, and at the presets'."""
    limit = TOLERANCES[place.dtype]
    for operation in () if place.small else OPERATIONS:
        trial = partial(map, operation.trial, [place.device], [place.dtype])
        yield f"trial of {operation.name}", compared(trial, limit)
    for _, name, run in cases(place):
        yield name, compared(run, limit)


def compared(run: Callable[[], Iterable[float]], limit: float) -> dict[str, Any]:
    """Differences and whether they are within a limit."""
    try:
        found = list(run())
    except Exception as error:  # one kernel must not hide the others
        return failed(error)
    return close(largest(found), limit) | {"results, then gradients": found}


def failed(error: BaseException) -> dict[str, Any]:
    """A figure for what ended with an error: too little memory is a finding, all else a failure."""
    if isinstance(error, torch.OutOfMemoryError):
        return {"reason": "out of memory"}
    return {"agrees": False, "reason": f"{type(error).__name__}: {error}"[:2000]}


def close(difference: float, limit: float) -> dict[str, Any]:
    """A difference and whether it is within its limit; NaN is not."""
    agrees = difference <= limit
    found = {"agrees": agrees, "difference": difference, "limit": limit}
    return found if agrees else found | {"reason": f"{difference:.1e} of the norm"}


def milliseconds(device: torch.device, call: Callable[[], object], repeats: int = 10) -> float:
    """Mean time of a call among others of its kind, after two that are not counted."""
    warm, repeats = (0, 1) if device.type == "cpu" else (2, repeats)
    for _ in range(warm):
        call()
    clock = clock_for(device)
    start = clock.mark()
    for _ in range(repeats):
        call()
    end = clock.mark()
    clock.wait(end)
    return clock.milliseconds(start, end) / repeats


# Of the norm, by autocast's type: what is added to the input, and the worst of the gradients (that
# of the flow). On a CPU the definition is 0.03 and 0.21 off in bfloat16, by rounding alone.
GOLDEN_LIMITS: dict[torch.dtype | None, tuple[float, float]] = {
    None: (1e-3, 1e-3),
    torch.bfloat16: (0.15, 0.4),
}
GOLDEN_FILES = ("vrt_tiny_io.safetensors", "vrt_tiny_weights.safetensors", "vrt_tiny_config.json")


def golden(place: Place) -> Figures:
    """The published model's output and gradients: definitions in float32, kernels in bfloat16."""
    from safetensors.torch import load_file

    files = [Path(place.golden) / name for name in GOLDEN_FILES]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise NotRun(f"needs the golden files: no {missing[0]}; --golden names their folder")
    tensors, weights = load_file(files[0]), load_file(files[1])
    arguments = json.loads(files[2].read_text())
    del arguments["upscale"]
    runs: list[tuple[str, torch.dtype | None]] = [("explicit", None), ("recompute", None)]
    if not place.small:
        runs += [("fused", None), ("explicit", torch.bfloat16), ("triton", torch.bfloat16)]
    # Float32 products are not to be rounded to ten bits (TF32).
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for name, dtype in runs:
            vrt = VRT(**arguments, compute=Compute(name))
            load_vrt(vrt, weights, "golden weights")
            label = f"{name}, {'float32' if dtype is None else 'bf16-mixed'}"
            yield label, golden_agreement(vrt, tensors, place.device, dtype)


def golden_agreement(
    vrt: VRT, tensors: dict[str, Tensor], device: torch.device, dtype: torch.dtype | None
) -> dict[str, Any]:
    """One implementation against the golden output and gradients."""
    blur, target = (tensors[f"t5.{name}"].to(device) for name in ("input", "target"))
    try:
        vrt.to(device)
        with torch.autocast(device.type, dtype) if dtype else nullcontext():
            output = vrt(blur)
        (output.float() - target).abs().mean().backward()
    except Exception as error:  # one implementation must not hide the others
        return failed(error)
    parameters = dict(vrt.named_parameters())
    prefix = "t5.grad."
    names = [name for name in tensors if name.startswith(prefix)]
    gradients = [parameters[name.removeprefix(prefix)].grad for name in names]
    found = [t.detach().cpu() for t in (output - blur, *gradients) if t is not None]
    expected = [tensors["t5.output"] - tensors["t5.input"], *(tensors[name] for name in names)]
    restored, *shares = relative_errors(found, expected)
    worst = largest(shares)
    limits = GOLDEN_LIMITS[dtype]
    return {
        "agrees": restored <= limits[0] and worst <= limits[1],
        "output": restored,
        "gradients": worst,
        "reason": f"output {restored:.1e}, gradients {worst:.1e} of the norm",
    }
