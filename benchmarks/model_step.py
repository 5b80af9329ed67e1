"""Time, memory and arithmetic of one training step of the model.

Measures forward and backward pass for every combination of what is asked for and prints a table;
the same figures, with machine and versions, go to ``benchmarks/results/model_step_<device>.json``.
A variant is an attention implementation and a recomputation policy, ``explicit:none`` the readable
definition that the others are compared with. FLOPs are those of the definition, forward and
backward, counted by PyTorch's counter, and are the same for all variants: what a variant computes
again is not counted as work done. Utilisation is against a matrix product timed in the same run.

Examples:
    python benchmarks/model_step.py --device cpu --variants explicit:none recompute:cheap
    python benchmarks/model_step.py --device cuda --model vrt-spike --crops 256 --frames 5 \\
        --precisions bf16-mixed --variants explicit:none triton:cheap --checkpointing none both
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from operation_flops import step_flops
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike import cli
from vrtspike.deblurring.models.block_compiling import compile_blocks
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import PlainVRT, VRTSpike
from vrtspike.files import write_json

BINS = 32
GIB = 2**30
CHECKPOINTING = {
    "none": (False, False),
    "attn": (True, False),
    "ffn": (False, True),
    "both": (True, True),
}
PRECISIONS = {"32": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
SIZES: dict[str, dict[str, Any]] = {
    "full": {},
    "small": {
        "embed_dims": (24,) * 7 + (30,) * 4,
        "num_heads": (3,) * 11,
        "depths": (4,) * 7 + (2,) * 4,
        "deformable_groups": 4,
    },
}


@dataclass(frozen=True)
class Case:
    """One combination to measure."""

    model: str
    size: str
    variant: str
    checkpointing: str
    precision: str
    frames: int
    crop: int
    batch: int
    compiled: bool

    def build(self) -> nn.Module:
        """The model, in training mode, on the default device."""
        attention, _, recompute = self.variant.partition(":")
        attn, ffn = CHECKPOINTING[self.checkpointing]
        torch.manual_seed(0)
        vrt = VRT(
            img_size=(self.frames, self.crop, self.crop),
            drop_path_rate=0.0,
            use_checkpoint_attn=attn,
            use_checkpoint_ffn=ffn,
            attention=attention,
            recompute="none" if recompute == "none" else "cheap",
            **SIZES[self.size],
        )
        if self.model == "vrt":
            return PlainVRT(vrt)
        return VRTSpike(vrt, bins=BINS, clip_len=self.frames, checkpoint=attn)

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Frames and voxels, on the default device."""
        shape = (self.batch, self.frames, 3, self.crop, self.crop)
        return torch.rand(shape), torch.randn(*shape[:2], BINS, *shape[3:])


@dataclass(frozen=True)
class Result:
    """What was measured; None where the case did not fit into memory."""

    forward_ms: float | None
    backward_ms: float | None
    kept_gib: float | None
    peak_gib: float | None
    samples_per_second: float | None
    tflop: float
    utilisation: float | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    options = parse(arguments)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    device = torch.device(options.device)
    ceilings = {name: matrix_rate(device, PRECISIONS[name]) for name in options.precisions}
    rows = []
    flops: dict[tuple[object, ...], float] = {}
    print(HEADER)
    for case in cases(options):
        shape = (case.model, case.size, case.frames, case.crop, case.batch)
        if shape not in flops:
            flops[shape] = count_flops(case)
        result = measure(case, device, options, flops[shape], ceilings[case.precision])
        rows.append({**asdict(case), **asdict(result)})
        print(line(case, result), flush=True)
    machine = describe(device) | {"matrix_tflops": {k: v / 1e12 for k, v in ceilings.items()}}
    path = options.output / f"model_step_{options.name or device.type}.json"
    write_json(path, {"schema": 1, "machine": machine, "rows": rows})
    print(f"written: {path}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--model", choices=("vrt", "vrt-spike"), default="vrt")
    add("--size", choices=tuple(SIZES), default="full")
    add(
        "--variants",
        nargs="+",
        default=["explicit:none", "auto:cheap"],
        metavar="ATTENTION:RECOMPUTE",
        help="explicit, fused, recompute, flex, triton or auto, then none or cheap",
    )
    add("--checkpointing", nargs="+", choices=tuple(CHECKPOINTING), default=["none"])
    add("--precisions", nargs="+", choices=tuple(PRECISIONS), default=["32"])
    add("--frames", type=int, default=6)
    add("--crops", nargs="+", type=int, default=[64])
    add("--batches", nargs="+", type=int, default=[1])
    add("--compile", action="store_true", help="compile the transformer blocks")
    add("--profile", type=int, default=0, metavar="ROWS", help="print the slowest operations too")
    add("--repeats", type=int, default=3, help="timed steps after the first; the median counts")
    add("--threads", type=int, help="CPU threads; PyTorch's choice if not given")
    add("--output", type=Path, default=Path(__file__).parent / "results")
    add("--name", help="name of the result file instead of the device's")
    return parser.parse_args(arguments)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All combinations, those of one problem together."""
    for precision, crop, batch, checkpointing, variant in itertools.product(
        options.precisions,
        options.crops,
        options.batches,
        options.checkpointing,
        options.variants,
    ):
        yield Case(
            options.model,
            options.size,
            variant,
            checkpointing,
            precision,
            options.frames,
            crop,
            batch,
            options.compile,
        )


def count_flops(case: Case) -> float:
    """FLOPs of a step of the definition; nothing is computed or allocated."""
    definition = Case(
        case.model,
        case.size,
        "explicit:none",
        "none",
        "32",
        case.frames,
        case.crop,
        case.batch,
        False,
    )
    with FakeTensorMode():
        return step_flops(definition.build(), definition.inputs())


def loss(restored: Tensor) -> Tensor:
    """Charbonnier loss against grey, in float32."""
    return ((restored.float() - 0.5).square() + 1e-6).sqrt().mean()


def measure(
    case: Case, device: torch.device, options: argparse.Namespace, flops: float, ceiling: float
) -> Result:
    """Build the model and time steps of it."""
    try:
        with device:
            model, inputs = case.build(), case.inputs()
        if case.compiled:
            compile_blocks(model)
        kept = kept_bytes(PRECISIONS[case.precision], model, inputs)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        dtype = PRECISIONS[case.precision]
        times = [step(dtype, model, inputs) for _ in range(options.repeats)]
        if options.profile:
            print_profile(dtype, model, inputs, options.profile)
    except torch.OutOfMemoryError:
        return Result(None, None, None, None, None, flops / 1e12, None)
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()
    forward, backward = (statistics.median(column) for column in zip(*times, strict=True))
    seconds = forward + backward
    peak = torch.cuda.max_memory_allocated() / GIB if device.type == "cuda" else None
    return Result(
        1e3 * forward,
        1e3 * backward,
        kept / GIB,
        peak,
        case.batch / seconds,
        flops / 1e12,
        flops / seconds / ceiling,
    )


def autocast(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """A precision of ``PRECISIONS``."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def step(
    dtype: torch.dtype | None, model: nn.Module, inputs: tuple[Tensor, Tensor]
) -> tuple[float, float]:
    """Seconds of a forward and a backward pass."""
    device = inputs[0].device
    model.zero_grad(set_to_none=True)
    start = now(device)
    with autocast(dtype, device):
        value = loss(model(*inputs))
    middle = now(device)
    value.backward()
    return middle - start, now(device) - middle


def print_profile(
    dtype: torch.dtype | None, model: nn.Module, inputs: tuple[Tensor, Tensor], rows: int
) -> None:
    """The operations of one step that take longest."""
    with torch.profiler.profile() as profiler:
        step(dtype, model, inputs)
    order = f"self_{inputs[0].device.type}_time_total"
    table = profiler.key_averages().table(sort_by=order, row_limit=rows, max_name_column_width=60)
    print(table)


def now(device: torch.device) -> float:
    """A clock that waits for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def kept_bytes(dtype: torch.dtype | None, model: nn.Module, inputs: tuple[Tensor, Tensor]) -> int:
    """Bytes kept for the backward pass, each storage once, without parameters; warms up too."""
    own = {t.untyped_storage()._cdata for t in storages(model)}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        # The storage's own address: tensors without data have no other.
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            sizes[storage._cdata] = storage.nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, autocast(dtype, inputs[0].device):
        value = loss(model(*inputs))
    value.backward()
    return sum(sizes.values())


def storages(model: nn.Module) -> Iterable[Tensor]:
    """Parameters and buffers."""
    return itertools.chain(model.parameters(), model.buffers())


def matrix_rate(device: torch.device, dtype: torch.dtype | None) -> float:
    """FLOP/s of a large matrix product on random data."""
    side = 8192 if device.type == "cuda" else 2048
    a, b = torch.randn(2, side, side, device=device, dtype=dtype or torch.float32)
    times = []
    for _ in range(6):
        start = now(device)
        torch.mm(a, b)
        times.append(now(device) - start)
    return 2 * side**3 / statistics.median(times[1:])


def describe(device: torch.device) -> dict[str, object]:
    """Machine and versions, as the results need them."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else processor()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "torchvision": installed("torchvision"),
        "python": platform.python_version(),
        "cuda": torch.version.cuda if device.type == "cuda" else None,
    }


def installed(package: str) -> str | None:
    """Version of a package, None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The CPU's name, where Linux tells it, else its architecture."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


HEADER = (
    f"{'variant':<18}{'ckpt':<6}{'precision':<12}{'clip':<14}{'batch':>5}{'forward ms':>12}"
    f"{'backward ms':>13}{'kept GiB':>10}{'peak GiB':>10}{'samples/s':>11}{'TFLOP':>8}{'used':>7}"
)


def line(case: Case, result: Result) -> str:
    """One row of the table."""

    def cell(value: float | None, width: int, digits: int) -> str:
        return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"

    variant = case.variant + (" compiled" if case.compiled else "")
    clip = f"{case.frames}x{case.crop}x{case.crop}"
    share = None if result.utilisation is None else 100 * result.utilisation
    return (
        f"{variant:<18}{case.checkpointing:<6}{case.precision:<12}{clip:<14}{case.batch:>5}"
        f"{cell(result.forward_ms, 12, 1)}{cell(result.backward_ms, 13, 1)}"
        f"{cell(result.kept_gib, 10, 2)}{cell(result.peak_gib, 10, 2)}"
        f"{cell(result.samples_per_second, 11, 3)}{cell(result.tflop, 8, 2)}{cell(share, 6, 1)}%"
    )


if __name__ == "__main__":
    cli.run(main)
