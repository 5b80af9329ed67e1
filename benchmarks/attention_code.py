"""Machine code of window attention: every kernel that the presets launch, compiled and counted.

What a variant needs on each GPU is kept in ``benchmarks/results/attention_code.json``, which tests
compare with what the compiler makes of today's source. Nothing here needs a GPU.

Examples:
    python benchmarks/attention_code.py              # compile all and compare
    python benchmarks/attention_code.py --write      # compile all and write the table
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from kernel_code import CAPABILITIES, KernelCode, compile_kernel

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.models.window_attention import launch_shapes as shapes
from vrtspike.deblurring.models.window_attention.triton_forward import forward_kernel, whole_kernel
from vrtspike.deblurring.models.window_attention.triton_gradients import (
    bias_kernel,
    gradient_kernel,
)
from vrtspike.deblurring.models.window_attention.triton_joint import joint_kernel
from vrtspike.deblurring.models.window_attention.triton_kernels import layout_kernel
from vrtspike.deblurring.models.windows import Size3, clip_window
from vrtspike.deblurring.settings import Settings
from vrtspike.files import read_json, write_json

REPOSITORY = Path(__file__).resolve().parent.parent
PRESETS = REPOSITORY / "config/presets"
TABLE = REPOSITORY / "benchmarks/results/attention_code.json"
SCALES = (1, 2, 4, 8, 4, 2, 1)
_KERNELS = {
    "forward": forward_kernel,
    "whole": whole_kernel,
    "gradient": gradient_kernel,
    "bias": bias_kernel,
    "joint": joint_kernel,
    "layout": layout_kernel,
}
_SHAPES = {
    "forward": shapes.forward_shape,
    "whole": shapes.forward_shape,
    "gradient": shapes.gradient_shape,
    "bias": shapes.bias_shape,
    "joint": shapes.joint_shape,
}
_TYPES = {torch.bfloat16: "bf16", torch.float32: "fp32"}
_POSITIONS = ("query", "key", "place", "regions")
_FLOAT32 = ("keep", "lse", "delta", "sums", "scale", "factor")
_OF_FEATURES = ("qkv", "out", "grad", "grads", "laid")


@dataclass(frozen=True, order=True)
class Problem:
    """What decides the code of the kernels of a window attention.

    Attributes:
        tokens: of a problem; half a window's where attention is mutual.
        width: channels of a head.
        heads: how many there are.
        dtype: type of the features, ``bf16`` or ``fp32``.
        biased: scores have a learned bias.
        masked: windows hold tokens that do not see each other.
    """

    tokens: int
    width: int
    heads: int
    dtype: str
    biased: bool
    masked: bool

    def launched(self, capability: int, *, many: bool = True) -> shapes.Problem:
        """What decides the shape of its launches on a GPU, with or without ``many`` windows."""
        dtype = next(dtype for dtype, name in _TYPES.items() if name == self.dtype)
        version = (capability // 10, capability % 10)
        kind = (self.tokens, self.width, self.heads, dtype, self.biased)
        return shapes.Problem(*kind, version, many)


def problems_of(settings: Settings) -> set[Problem]:
    """All that a training step of a preset meets, of the backbone and along time."""
    data, model = settings.DATA, settings.MODEL
    dims, heads = model.VRT.EMBED_DIMS, model.VRT.NUM_HEADS
    dtype = "fp32" if settings.TRAIN.PRECISION == "32" else "bf16"
    found: set[Problem] = set()

    def add(blocks: int, scale: int, window: Size3, channels: int, *, mutual: bool) -> None:
        side = data.CROP_SIZE // scale
        size = (data.CLIP_LEN, side, side)
        for shifted in [False, True][:blocks]:  # every second block is
            geometry = clip_window(size, window, shifted=shifted, mutual=mutual)
            tokens = geometry.tokens // (2 if mutual else 1)
            kind = (tokens, channels // heads, heads, dtype, not mutual)
            # A shifted map has windows of one region, too.
            found.add(Problem(*kind, masked=False))
            if any(geometry.shift):
                found.add(Problem(*kind, masked=True))

    _, height, width = model.window
    stages = list(zip(model.VRT_DEPTHS, dims, strict=True))
    for (depth, channels), scale in zip(stages, SCALES, strict=False):
        paired = int(depth * model.VRT.MUL_ATTN_RATIO)
        add(paired, scale, (2, height, width), channels, mutual=True)
        add(paired, scale, (2, height, width), channels, mutual=False)
        add(depth - paired, scale, model.window, channels, mutual=False)
    for group, (depth, channels) in enumerate(stages[len(SCALES) :], start=len(SCALES)):
        alone = group in model.VRT.INDEP_RECONSTS
        add(depth, 1, (1, height, width) if alone else model.window, channels, mutual=False)
    if model.USE_SPIKE:
        for part in (model.SPIKE_TSA, model.FUSE):
            for channels in set(dims[: len(SCALES)]):
                width_of_head = channels // part.HEADS
                kind = (data.CLIP_LEN, width_of_head, part.HEADS, dtype)
                found.add(Problem(*kind, biased=True, masked=False))
    return found


def every_problem() -> list[Problem]:
    """Those of all presets."""
    presets = (load_preset(path) for path in PRESETS.glob("*.yaml"))
    videos = [preset for preset in presets if isinstance(preset, Settings)]
    return sorted({p for preset in videos for p in problems_of(preset)})


@dataclass(frozen=True)
class Variant:
    """A kernel as it is compiled for a GPU."""

    kernel: str
    problem: Problem
    capability: int
    many: bool = True

    @property
    def name(self) -> str:
        """Its line in the table."""
        of = self.problem
        kind = [f"{of.tokens} tokens x {of.heads} x {of.width}", of.dtype]
        kind += ["bias"] * of.biased + ["mask"] * of.masked + ["few windows"] * (not self.many)
        return f"sm_{self.capability} {self.kernel}: {', '.join(kind)}"

    def constants(self) -> dict[str, Any]:
        """Compile-time constants and options, as a launch has them that may leave out samples."""
        return self._shape() | ({} if self.kernel == "layout" else {"KEEP": True})

    def _shape(self) -> dict[str, Any]:
        of = self.problem
        if self.kernel == "layout":
            return shapes.layout_shape(of.tokens)
        launched = of.launched(self.capability, many=self.many)
        return _SHAPES[self.kernel](launched, masked=of.masked)

    def compile(self) -> KernelCode:
        """Compile it and read its code."""
        kernel, constants = _KERNELS[self.kernel], self.constants()
        options = {name: constants.pop(name) for name in list(constants) if name.startswith("num")}
        types = _types(kernel.arg_names, constants, self.problem.dtype)
        return compile_kernel(kernel, types, constants, self.capability, **options)


def _types(names: Sequence[str], constants: Mapping[str, Any], dtype: str) -> dict[str, str]:
    """Types of a kernel's arguments: pointers, lengths and factors."""
    types = {}
    for name in names:
        if name in constants:
            continue
        if name in _FLOAT32:
            types[name] = "fp32" if name in ("scale", "factor") else "*fp32"
        elif name in _POSITIONS:
            types[name] = "*i32"
        elif name in _OF_FEATURES or name == "bias":
            types[name] = f"*{dtype}"
        else:
            types[name] = "i32"
    if "laid" in names:  # The parameter is float32, whatever the features are.
        types["bias"] = "*fp32"
    return types


def variants(
    problems: Iterable[Problem], capabilities: Iterable[int] = CAPABILITIES
) -> Iterator[Variant]:
    """Each kernel that the problems launch, on each GPU."""
    for problem, capability in itertools.product(problems, capabilities):
        whole = shapes.holds_keys(problem.launched(capability))
        kernels = ["whole" if whole else "forward"]
        if shapes.is_joint(problem.launched(capability)):
            kernels += ["joint"]
        else:
            kernels += ["gradient", "bias"] if problem.biased else ["gradient"]
        if problem.biased and not problem.masked:
            kernels += ["layout"]
        for kernel in kernels:
            variant = Variant(kernel, problem, capability)
            yield variant
            # Where a program has all heads, it has one where there are few windows.
            if variant.constants().get("ALL_HEADS"):
                yield Variant(kernel, problem, capability, many=False)


def row(code: KernelCode) -> dict[str, Any]:
    """A line of the table."""
    return {name: list(x) if isinstance(x, tuple) else x for name, x in vars(code).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table")
    write = parser.parse_args().write
    found = {v.name: row(v.compile()) for v in variants(every_problem())}
    if write:
        write_json(TABLE, {"triton": triton.__version__, "variants": found})
        return 0
    known = read_json(TABLE)["variants"]
    changed = [name for name in {**known, **found} if known.get(name) != found.get(name)]
    for name in changed:
        print(f"{name}\n  was {known.get(name)}\n  is  {found.get(name)}")
    return int(bool(changed))


if __name__ == "__main__":
    raise SystemExit(main())
