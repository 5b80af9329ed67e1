"""What a training step would cost a GPU, counted without one.

The micro-step of a preset (forward pass, Charbonnier loss, backward pass of one clip) is traced on
tensors without data under CUDA's rules (``step_trace.py``). Every kernel takes as long as the
slowest of what it does: moving its bytes, its matrix products, its instructions, its exponentials;
and at least as long as the shortest kernel. The named GPUs and the shares of their data sheets that
are taken to be reached stand in ``gpus.py``. Nothing here is measured; where a GPU has run,
``docs/presets.md`` shows what it measured beside it.

The result goes to ``benchmarks/results/roofline.json`` and from there to ``docs/presets.md``.

Examples:
    python benchmarks/roofline.py                        # all presets, results and page
    python benchmarks/roofline.py --show baseline        # one preset by part, nothing written
    python benchmarks/roofline.py --show fast --crop 128 --gpu A100
    python benchmarks/roofline.py --show baseline --set MODEL.VRT.ATTENTION=explicit
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import presets
from gpus import (
    BANDWIDTH_SHARE,
    EAGER_US,
    FLOAT32_SHARE,
    GPUS,
    ISSUE_SHARE,
    MATRIX_SHARE,
    SHORTEST_US,
    SPECIAL_CYCLES,
    SPECIAL_SHARE,
    Gpu,
)
from model_step import GIB, PRECISIONS
from operation_costs import Kernel
from preset_values import EXPLICIT, defined
from step_trace import DEVICE, Launch, Trace, trace, without_gpu
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.models import Restorer
from vrtspike.deblurring.settings import Settings
from vrtspike.io.files import read_json, write_json
from vrtspike.system import cli

RIVAL = ("MODEL.VRT.ATTENTION=fused", "MODEL.VRT.RECOMPUTE=none")
TWINS: dict[str, tuple[Sequence[str], Callable[[], AbstractContextManager[None]]]] = {
    "explicit": (EXPLICIT, nullcontext),
    "definitions": (EXPLICIT, defined),
    "rival": (RIVAL, defined),
}
"""What the presets are compared with, as settings that ``baseline`` gets and what is around it:
attention by its readable definition; all operations by their definitions; these with PyTorch's
``scaled_dot_product_attention``, launched one by one: code that ``torch.compile`` would make is not
known without a GPU."""
MOMENT_BYTES = {"adamw": 8, "adamw8bit": 2}


@dataclass
class Cost:
    """The kernels of a part of a step, added up.

    Attributes:
        kernels: launches.
        gb: moved where no branch is dropped, in 10^9 bytes.
        tflop: of matrix products then, 10^12.
        ms: on each GPU that is asked for, in the mean over what stochastic depth drops.
    """

    kernels: int = 0
    gb: float = 0.0
    tflop: float = 0.0
    ms: dict[str, float] = field(default_factory=dict)

    def add(self, launch: Launch, gpus: Iterable[str]) -> None:
        """Add a launch."""
        kernel = launch.kernel
        self.kernels += 1
        self.gb += kernel.moved / 1e9
        self.tflop += kernel.flops / 1e12
        for name in gpus:
            self.ms[name] = self.ms.get(name, 0.0) + 1e3 * expected_seconds(launch, GPUS[name])


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and show, or write."""
    options = parse(arguments)
    if options.show:
        for name in options.show:
            print(report(name, options))
        return 0
    results = options.output / "roofline.json"
    rows = read_json(results)["rows"] if results.is_file() else {}
    for name in options.presets or (*presets.PRESETS, *TWINS):
        print(f"counting {name}", flush=True)
        rows[name] = count_named(name)
        write_json(results, {"schema": 1, "rows": rows})
    return presets.write_page(options.output, options.page)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("presets", nargs="*", help="count these again (default: all)")
    add("--show", nargs="+", metavar="PRESET", help="print by part instead of writing")
    add("--gpu", choices=tuple(GPUS), default="H200", help="whose time is shown")
    add("--crop", type=int, help="side of the crop instead of the preset's")
    add("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other settings")
    add("--output", type=Path, default=presets.REPOSITORY / "benchmarks/results")
    add("--page", type=Path, default=presets.REPOSITORY / "docs/presets.md")
    return parser.parse_args(arguments)


def seconds(kernel: Kernel, gpu: Gpu) -> float:
    """How long a kernel takes."""
    rates = {
        "none": float("inf"),
        "half": gpu.half * MATRIX_SHARE,
        "tf32": gpu.tf32 * MATRIX_SHARE,
        "float32": gpu.float32 * FLOAT32_SHARE,
    }
    every, special = (0.0, 0.0) if kernel.issued is None else kernel.issued()
    cycles = max(every / ISSUE_SHARE, special * SPECIAL_CYCLES / SPECIAL_SHARE)
    return max(
        SHORTEST_US * 1e-6,
        kernel.moved / (gpu.bandwidth * BANDWIDTH_SHARE),
        kernel.flops / rates[kernel.arithmetic],
        cycles / (4 * gpu.processors * gpu.clock),
    )


def expected_seconds(launch: Launch, gpu: Gpu) -> float:
    """How long a launch takes in the mean, where stochastic depth drops some branches."""
    kernel = launch.kernel
    whole = seconds(kernel, gpu)
    if kernel.left is None:
        return whole
    rest = seconds(Kernel(kernel.left), gpu)
    return whole + launch.dropped * (rest - whole)


def count_named(name: str, gpus: Collection[str] = tuple(GPUS)) -> dict[str, Any]:
    """:func:`count` of a preset or of one of ``TWINS``."""
    if name not in TWINS:
        return count(presets.load(name), gpus=gpus)
    overrides, around = TWINS[name]
    with around():
        return count(presets.load("baseline", overrides), gpus=gpus)


def trace_preset(settings: Settings, crop: int | None = None) -> Trace:
    """The micro-step of a preset, with one clip."""
    side = crop or settings.DATA.CROP_SIZE
    dtype = PRECISIONS[settings.TRAIN.PRECISION]
    with without_gpu() as mode:
        with torch.device(DEVICE):
            model = presets.build(settings, side)
            clips = presets.inputs(settings, side, 1)
            sharp = torch.rand_like(clips[0])

        def run() -> Tensor:
            with nullcontext() if dtype is None else torch.autocast("cuda", dtype):
                restored = model(*clips)
            return charbonnier(restored.float(), sharp)

        return trace(mode, model, run, part_of)


def count(
    settings: Settings, crop: int | None = None, gpus: Collection[str] = tuple(GPUS)
) -> dict[str, Any]:
    """Kernels, bytes, arithmetic, time and memory of a preset's micro-step.

    Args:
        settings: of the preset.
        crop: side of the crop; None takes the preset's.
        gpus: whose time is counted. Without any, no kernel has to be compiled.
    """
    traced = trace_preset(settings, crop)
    parts = by_part(traced.launches, gpus)
    whole = total(parts.values())
    side = crop or settings.DATA.CROP_SIZE
    return {
        "clip": [settings.DATA.CLIP_LEN, side, side],
        "kernels": whole.kernels,
        "gb": whole.gb,
        "tflop": whole.tflop,
        "kept_gib": traced.kept / GIB,
        "peak_gib": (traced.peak + moments(settings)) / GIB,
        "ms": whole.ms,
        "parts": {name: vars(cost) for name, cost in parts.items()},
    }


def moments(settings: Settings) -> int:
    """Bytes of the optimiser's two moments."""
    with torch.device("meta"):
        model: Restorer = presets.build(settings, settings.DATA.CROP_SIZE)
    parameters = sum(p.numel() for p in model.parameters())
    return parameters * MOMENT_BYTES[settings.TRAIN.OPTIM.TYPE]


def by_part(launches: Iterable[Launch], gpus: Collection[str] = tuple(GPUS)) -> dict[str, Cost]:
    """Costs by part, the longest on an H200 first."""
    parts: dict[str, Cost] = {}
    for launch in launches:
        parts.setdefault(launch.part, Cost()).add(launch, gpus)
    return dict(sorted(parts.items(), key=lambda item: -item[1].ms.get("H200", 0.0)))


def total(costs: Iterable[Cost]) -> Cost:
    """The sum of parts."""
    whole = Cost()
    for cost in costs:
        whole.kernels += cost.kernels
        whole.gb += cost.gb
        whole.tflop += cost.tflop
        whole.ms = {name: whole.ms.get(name, 0.0) + ms for name, ms in cost.ms.items()}
    return whole


def samples_per_second(row: Mapping[str, Any], gpu: str, *, graph: bool) -> float:
    """Clips a second: those of the GPU, or of the host where it launches each kernel itself."""
    ms = row["ms"][gpu]
    return 1e3 / (ms if graph else max(ms, row["kernels"] * EAGER_US / 1e3))


# By the modules around an operation, the innermost first; then by the operation.
_PLACES = {
    "SpyNet": "flow (SpyNet)",
    "SpikeEncoder3D": "spike encoder",
    "SpikeTemporalSA": "attention along time, fusion",
    "TemporalCrossAttn": "attention along time, fusion",
    "RelativeTime": "attention along time, fusion",
    "DeformableAlignment": "offset convolutions, warping",
}
_OPERATIONS = {
    "aten::mm": "matrix products",
    "aten::addmm": "matrix products",
    "aten::bmm": "matrix products",
    "aten::native_layer_norm": "layer norms",
}
_KERNELS = {
    "ops.window_attention": "window attention",
    "ops.projections": "norms and projections",
    "ops.feed_forward": "feed-forward layers",
    "ops.deform_conv": "deformable convolution",
    "ops.ops": "gradients of weights",
}
_BLOCK = "TMSABlock"


def part_of(modules: Sequence[nn.Module], operation: str) -> str:
    """The part of a step that an operation belongs to."""
    names = [type(module).__name__ for module in modules]
    kernel = operation.rpartition(".")[0]
    if kernel in _KERNELS:
        return _KERNELS[kernel]
    for name in reversed(names):
        if name in _PLACES:
            return _PLACES[name]
    for start, part in _OPERATIONS.items():
        if operation.split(".")[0].removesuffix("_backward") == start:
            return part
    return "pointwise in blocks" if _BLOCK in names else "the rest"


def report(name: str, options: argparse.Namespace) -> str:
    """One preset by part, for a person."""
    row = count(presets.load(name, options.set), options.crop)
    gpu = options.gpu
    lines = [
        f"{name}, {presets.clip_size(row['clip'])}, on {gpu}:",
        f"{'part':32s} {'kernels':>8s} {'GB':>8s} {'TFLOP':>7s} {'ms':>7s}",
    ]
    for part, cost in [*row["parts"].items(), ("all", row)]:
        lines.append(
            f"{part:32s} {cost['kernels']:8d} {cost['gb']:8.1f} {cost['tflop']:7.2f} "
            f"{cost['ms'][gpu]:7.1f}"
        )
    graph, eager = (samples_per_second(row, gpu, graph=value) for value in (True, False))
    lines.append(
        f"{graph:.2f} clips a second by a CUDA graph, {eager:.2f} launched one by one; kept for "
        f"the backward pass {row['kept_gib']:.1f} GiB, at most in use {row['peak_gib']:.1f} GiB"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main)
