"""Measure the presets on a GPU: agreement with a CPU, speed and peak memory.

Each part runs in a process of its own with a time limit. Times are medians of CUDA events, memory
is ``torch.cuda.max_memory_allocated``. Beside them stands what was counted of the steps of this
commit (``benchmarks/presets.py``). The results are written after each part to
``benchmarks/results/gpu_<device>.json`` and shown as a table; the exit status is 1 unless all parts
finish and agree. A preset that is out of memory is no failure.
"""

from __future__ import annotations

import argparse
import gc
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._inductor.exc import InductorError
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

from vrtspike.data.clips.neighbors import voxel_frames
from vrtspike.deblurring.training_cost import clip_cost
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.schema import load_deblurring_preset
from vrtspike.io.files import finite_or_null, read_json, write_json
from vrtspike.losses.charbonnier import charbonnier
from vrtspike.models import Restorer, build_model
from vrtspike.monitoring.timing import time_call
from vrtspike.restoration.inference.tiling import (
    balanced_side,
    tile_unit,
    tiling_for,
    tiling_overhead,
)
from vrtspike.system.errors import RunError
from vrtspike.system.program import run_main
from vrtspike.training.environment import describe_environment
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision

GIB = 2**30
REPOSITORY = Path(__file__).resolve().parent.parent
FIRST = ("baseline", "light", "fast")
MORE = (
    "reproduce",
    "compact",
    "low_memory",
    "low_ram",
    "opt",
    "light_spk",
    "light_small",
    "finetune",
    "general_first",
    "general_second",
    "general",
    "demo",
    "light_demo",
)
SMALL = ("light_demo", "demo")
"""Presets that test the parts on a CPU."""
SIDE = 32
"""Side of their frames in pixels."""
ATTENTION = ("sdpa", "recompute")
MAX_KERNELS = 12
"""Kernels of each preset whose times are shown, the slowest first."""
CLIP = (60, 720, 1280)
"""Frames, height and width of the clip whose restoration is timed."""
LIMITS = {"32": 1e-2, "bf16-mixed": 0.05}
"""Largest differences of the residual (output minus input) and of all gradients, relative to their
norms; on a CPU rounding to bfloat16 changes ``baseline`` by 0.01."""

Clip = tuple[Tensor, Tensor]
Measurements = Iterator[tuple[str, dict[str, Any]]]


def load(name: str, *overrides: str) -> DeblurringSettings:
    """Load the settings of a preset."""
    return load_deblurring_preset(REPOSITORY / f"config/presets/{name}.yaml", overrides)


def presets(device: torch.device, names: Sequence[str]) -> Sequence[str]:
    """Return the presets to measure on a device."""
    return names if device.type == "cuda" else SMALL


def build(settings: DeblurringSettings, device: torch.device) -> Restorer:
    """Build the untrained model of a preset; no layer is zero."""
    torch.manual_seed(0)
    model = build_model(settings, pretrained=False)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():  # zero weights of the last layer make all gradients zero
                parameter.normal_(0, 0.02)
    return model.to(device)


def clips(
    settings: DeblurringSettings, device: torch.device, shape: Sequence[int], batch: int = 1
) -> Clip:
    """Return random frames (batch, T, 3, H, W) and voxels of half their size.

    With DATA.NEIGHBOURS, the voxels are those of T + 2 frames.

    Args:
        settings: settings of the preset.
        device: device of the tensors.
        shape: T, H, W.
        batch: number of clips.
    """
    sensor = (side // 2 for side in shape[1:])
    spike_frames = voxel_frames(shape[0], neighbors=settings.DATA.NEIGHBOURS)
    voxels = torch.randn(batch, spike_frames, settings.DATA.NUM_VOXEL_BINS, *sensor)
    return torch.rand(batch, shape[0], 3, *shape[1:]).to(device), voxels.to(device)


def milliseconds(device: torch.device, call: Callable[[], object]) -> float:
    """Return the median time of 3 to 7 calls after a first one; on a CPU that of one call.

    After 3 calls, no further one begins once 3 s are used.
    """
    times: list[float] = []
    max_calls = 8 if device.type == "cuda" else 1
    while len(times) < max_calls and (len(times) < 4 or sum(times) < 3e3):
        times.append(1e3 * time_call(device, call))
    if len(times) == 1:
        return times[0]
    return statistics.median(times[1:])


def loss(restored: Tensor) -> Tensor:
    """Charbonnier loss against grey, in float32."""
    return charbonnier(restored.float(), torch.tensor(0.5, device=restored.device))


def agreement(device: torch.device) -> Measurements:
    """Compare output and gradients with those of a CPU in float32, without dropout."""
    for name in presets(device, FIRST[:2]):
        settings = load(name)
        model = build(settings, torch.device("cpu")).eval()
        clip = clips(settings, torch.device("cpu"), (settings.DATA.CLIP_LEN, SIDE, SIDE))
        # Without TF32, which rounds float32 products to ten bits.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            expected = results(model, clip, torch.device("cpu"), settings, "32")
            for precision, limit in LIMITS.items():
                measured = results(model, clip, device, settings, precision)
                output = relative_difference(measured[0], expected[0])
                gradients = relative_difference(measured[1], expected[1])
                agrees = output <= limit and gradients <= limit
                differences = {"agrees": agrees, "output": output, "gradients": gradients}
                yield f"{name}, {precision}", differences


def relative_difference(measured: Tensor, expected: Tensor) -> float:
    """Return the norm of a difference, relative to that of the expected values."""
    return float((measured - expected).norm() / expected.norm())


def results(
    model: Restorer, clip: Clip, device: torch.device, settings: DeblurringSettings, precision: str
) -> tuple[Tensor, Tensor]:
    """Compute the residual and all gradients of a model on a device; returns them on the CPU."""
    model.to(device).zero_grad(set_to_none=True)
    train = settings.TRAIN.model_copy(update={"PRECISION": precision})
    arithmetic = Precision(train, device)
    forward_module = arithmetic.forward_module(
        model, half_precision_weights=model.half_precision_weights
    )
    with arithmetic.autocast():
        restored = forward_module(*(tensor.to(device) for tensor in clip))
    loss(restored).backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return restored.detach().float().cpu() - clip[0], torch.cat(gradients).cpu()


def training(device: torch.device, names: Sequence[str], *, compiled: bool = False) -> Measurements:
    """Time micro-steps of presets."""
    for name in presets(device, names):
        yield name, train(load(name), device, compiled)


def counted(names: Sequence[str]) -> Measurements:
    """Yield the operations, memory traffic and arithmetic of a micro-step of each preset."""
    for name in names:
        settings = load(name)
        cost = clip_cost(name, settings)
        if cost is not None:
            batch = settings.TRAIN.BATCH_SIZE
            yield (
                name,
                {
                    "operations": cost.operations,
                    "moved_tb": batch * cost.moved_tb,
                    "tflop": batch * cost.run_tflop,
                },
            )


def attention(device: torch.device) -> Measurements:
    """Time micro-steps of a preset with each implementation of window attention."""
    for name in ATTENTION:
        settings = load(presets(device, FIRST[:1])[-1], f"MODEL.VRT.ATTENTION={name}")
        yield name, train(settings, device, compiled=False)


def kernels(device: torch.device) -> Measurements:
    """Measure the slowest kernels of a micro-step."""
    on_gpu = device.type == "cuda"
    activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    for name in presets(device, FIRST[:2]):
        micro_step, _ = prepare(load(name), device, compiled=False)
        micro_step()
        with profile(activities=[activity]) as profiler:
            micro_step()
        rows = profiler.key_averages()
        times = {
            row.key: row.self_device_time_total if on_gpu else row.self_cpu_time_total
            for row in rows
        }
        calls = {row.key: row.count for row in rows}
        for key in sorted(times, key=times.__getitem__, reverse=True)[:MAX_KERNELS]:
            share = times[key] / sum(times.values())
            yield f"{name}, {key[:80]}", {"share": share, "ms": times[key] / 1e3, "n": calls[key]}


def prepare(
    settings: DeblurringSettings, device: torch.device, compiled: bool
) -> tuple[Callable[[], None], Optimizer]:
    """Build a micro-step of a preset, and its optimizer."""
    gc.collect()  # frees the memory of the former preset
    torch._dynamo.reset()
    on_gpu = device.type == "cuda"
    precision = Precision(settings.TRAIN, device)
    model = build(settings, device)
    precision.prepare(model)
    forward_module = precision.forward_module(
        model, half_precision_weights=model.half_precision_weights
    )
    groups: list[dict[str, object]] = [{"params": list(model.parameters()), "lr": 1e-6}]
    optimizer = build_optimizer(groups, settings.TRAIN.OPTIM)
    side = settings.DATA.CROP_SIZE if on_gpu else SIDE
    batch = settings.TRAIN.BATCH_SIZE if on_gpu else 1
    clip = clips(settings, device, (settings.DATA.CLIP_LEN, side, side), batch)
    if compiled and on_gpu:
        model.compile(mode=settings.TRAIN.COMPILE_MODE)
    elif compiled:
        # Without a GPU only the tracing is tested, not the compiler behind it.
        model.compile(backend="eager")

    def micro_step() -> None:
        if settings.TRAIN.GRADIENT_ACCUMULATION_STEPS == 1:
            optimizer.zero_grad()
        # As in the training loop, autocast keeps the casts of weights for the backward pass.
        with precision.autocast():
            restored = forward_module(*clip)
            with precision.full_precision():
                precision.scaler.scale(loss(restored)).backward()

    return micro_step, optimizer


def train(settings: DeblurringSettings, device: torch.device, compiled: bool) -> dict[str, Any]:
    """Measure time and peak memory of a micro-step; too little memory is a result, not an error."""
    on_gpu = device.type == "cuda"
    batch = settings.TRAIN.BATCH_SIZE if on_gpu else 1
    try:
        micro_step, optimizer = prepare(settings, device, compiled)
        micro_step()
        optimizer.step()  # allocates the moments
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        ms = milliseconds(device, micro_step)
        peak = torch.cuda.max_memory_allocated(device) / GIB if on_gpu else None
        update = milliseconds(device, optimizer.step)
    except torch.OutOfMemoryError:
        return {"note": "out of memory"}
    except InductorError as error:
        return {"note": f"does not compile: {str(error).splitlines()[0]}"}
    return {"clips/s": 1e3 * batch / ms, "peak GiB": peak, "ms": ms, "optimizer ms": update}


def restoring(device: torch.device) -> Measurements:
    """Compute the frames per second of a long clip from the time of one of its tiles."""
    for name in presets(device, FIRST[:2]):
        settings = load(name)
        _, *sides = CLIP
        tiling = tiling_for(settings)
        unit = tile_unit(2)
        tile = [balanced_side(side, tiling.size, tiling.overlap, unit) for side in sides]
        if device.type != "cuda":
            tile = [SIDE, SIDE]
        model = build(settings, device).eval()
        clip = clips(settings, device, (tiling.frames, *tile))
        with torch.inference_mode(), Precision(settings.TRAIN, device).autocast():
            ms = milliseconds(device, partial(model, *clip))
        rate = tiling.frames * tile[0] * tile[1] / ms * 1e3 / tiling_overhead(CLIP, tiling, unit)
        yield name, {"frames/s": rate / (sides[0] * sides[1]), "tile": tile, "ms": ms}


PARTS: dict[str, tuple[int, Callable[[torch.device], Measurements]]] = {
    "agreement": (40, agreement),
    "training": (50, partial(training, names=FIRST)),
    "attention": (50, attention),
    "kernels": (30, kernels),
    "restoring": (30, restoring),
    "training, more": (130, partial(training, names=MORE)),
    "compiled": (150, partial(training, names=FIRST[1::-1], compiled=True)),
    "compiled, more": (400, partial(training, names=MORE, compiled=True)),
}
"""Time limits in seconds, and the functions that measure on a device."""
DEFAULT = list(PARTS)[:-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts one after another, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", default="cuda", help="cuda, or cpu to try the parts at tiny sizes"
    )
    parts = ", ".join(f"'{part}'" for part in PARTS)
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=DEFAULT, metavar="PART", help=f"some of {parts}"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, help="factor of the parts' time limits"
    )
    parser.add_argument("--output", type=Path, default=REPOSITORY / "benchmarks/results")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RunError("no GPU here that PyTorch can use; --device cpu tries the parts without one")
    if options.answer is not None:
        answer: dict[str, Any] = {}
        for name, measured in PARTS[options.only[0]][1](device):
            answer[name] = finite_or_null(measured)
            write_json(options.answer, answer)
        return 0
    results: dict[str, Any] = {
        "machine": describe_environment(device),
        "counted": dict(counted((*FIRST, *MORE))),
        "parts": {},
    }
    name = re.sub(r"[^a-z0-9]+", "_", f"gpu {results['machine']['device']['name']}".lower()).strip(
        "_"
    )
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / f"{name}.json"
    for part in options.only:
        result = run_apart(part, options.device, options.patience)
        results["parts"][part] = result
        write_json(file, results)
        print("\n".join(table(part, result)), flush=True)
    print(f"written: {file}")
    is_sound = all(result["status"] == "ok" for result in results["parts"].values())
    return 0 if is_sound else 1


def run_apart(part: str, device: str, patience: float) -> dict[str, Any]:
    """Run a part in a process of its own; returns ``status``, ``seconds`` and ``measurements``."""
    limit = PARTS[part][0] * patience
    start = time.monotonic()
    messages: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, "--device", device, "--only", part]
        try:
            completed = subprocess.run(
                [*command, "--answer", str(answer)], capture_output=True, text=True, timeout=limit
            )
            status = "ok"
            if completed.returncode:
                status = "failed"
                messages = completed.stderr.splitlines()[-15:]
        except subprocess.TimeoutExpired:
            status = f"cut off after {limit:.0f} s"
        measurements = read_json(answer) if answer.is_file() else {}
    if any(row.get("agrees") is False for row in measurements.values()):
        status = "failed"
    seconds = round(time.monotonic() - start, 1)
    return {"status": status, "seconds": seconds, "measurements": measurements, "said": messages}


def table(part: str, result: dict[str, Any]) -> Iterator[str]:
    """Yield lines of text: the status of the part, and a row for each of its measurements."""
    yield f"{part}: {result['status']}, {result['seconds']} s"
    for name, row in result["measurements"].items():
        texts = []
        for key, value in row.items():
            texts.append(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}")
        yield f"  {name:<24}{', '.join(texts)}"
    for line in result["said"]:
        yield f"  | {line}"


if __name__ == "__main__":
    run_main(main)
