"""How fast is a training step, and how much memory does it take? Parts of ``gpu.py``.

What is compared takes turns, so that a slow moment of the machine is shared by all.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from vrtspike.training.micro_steps import LaunchedMicroSteps, Work

from gpu_agreement import close, failed, milliseconds
from gpu_parts import Figures, Place
from model_step import GIB, PRECISIONS, autocast, installed, loss, matrix_rate, now
from preset_values import load
from presets import FASTER, PRESETS, build, inputs
from vrtspike.deblurring.models.ops.comparison import largest, relative_errors
from vrtspike.monitoring.timing import TimingLogger
from vrtspike.training import cuda_graphs
from vrtspike.training.batches import seed_everything
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision
from vrtspike.training.tasks import Task

# None of our own kernels, and nothing computed again beside the preset's checkpoints.
PYTORCH_ALONE = ("MODEL.DISABLE_KERNELS=[all]", "MODEL.VRT.RECOMPUTE=none")
KINDS = {
    "own": (),
    "definitions": (*PYTORCH_ALONE, "MODEL.VRT.ATTENTION=explicit"),
    "fused": (*PYTORCH_ALONE, "MODEL.VRT.ATTENTION=fused"),
    "torch.compile": (*PYTORCH_ALONE, "MODEL.VRT.ATTENTION=fused"),
    "flex": (*PYTORCH_ALONE, "MODEL.VRT.ATTENTION=flex"),
}
"""Ways to compute a preset by the settings that they change: as it is; by the definitions; and what
a user would try before kernels of one's own, PyTorch's ``scaled_dot_product_attention``, that with
compiled blocks, and its ``flex_attention``."""
FIRST_PRESETS = ("fast", "baseline")
ROUNDS = 5
# Largest differences of a replay from eager micro-steps: the same kernels, whose atomic additions
# come in another order.
LOSS_LIMIT, GRADIENT_LIMIT = 1e-2, 2e-2


def machine(place: Place) -> Figures:
    """What the device is, its driver and clocks, and what it reaches in copies and products."""
    packages = ("torch", "torchvision", "triton", "numpy")
    yield "versions", {name: installed(name) for name in packages}
    yield "python", platform.python_version()
    if not place.small:
        yield "device", device_figures(place.device)
        yield "cuda", {"torch": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        for name, dtype in PRECISIONS.items():
            yield f"TFLOP/s, {name}", matrix_rate(place.device, dtype) / 1e12
        yield "nvidia-smi", driver_report()
    source = torch.randn(1 << (16 if place.small else 29), device=place.device)
    target = torch.empty_like(source)
    ms = milliseconds(place.device, lambda: target.copy_(source))
    yield "copy GB/s, read and written", 2 * source.nbytes / ms / 1e6


def device_figures(device: torch.device) -> dict[str, Any]:
    """What PyTorch knows of a GPU."""
    about = torch.cuda.get_device_properties(device)
    return {
        "name": about.name,
        "capability": f"{about.major}.{about.minor}",
        "memory GiB": about.total_memory / GIB,
        "multiprocessors": about.multi_processor_count,
    }


def driver_report() -> list[str]:
    """Driver, clocks and power, as the driver's own program tells; empty without it."""
    try:
        found = subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return []
    kinds = ("Driver Version", "SM  ", "Memory  ", "Power", "Temp", "Compute Mode")
    return [" ".join(x.split()) for x in found.stdout.splitlines() if x.strip().startswith(kinds)]


class Step:
    """A preset's model with clips, and its training step without the optimiser.

    Args:
        place: where it runs; without a GPU it is the preset ``demo`` on a smaller crop.
        preset: its name.
        kind: one of :data:`KINDS`.
        batch: clips; None takes the preset's.
    """

    def __init__(
        self, place: Place, preset: str, kind: str = "own", batch: int | None = None
    ) -> None:
        settings = load("demo" if place.small else preset, KINDS[kind])
        side = 32 if place.small else settings.DATA.CROP_SIZE
        self.device = place.device
        self.batch = batch or (1 if place.small else settings.TRAIN.BATCH_SIZE)
        self.precision = "32" if place.small else settings.TRAIN.PRECISION
        self.dtype = PRECISIONS[self.precision]
        with place.device:
            self.model = build(settings, side)
            self.clips = inputs(settings, side, self.batch)
            fill_zero_parameters(self.model)
        if kind == "torch.compile":
            # Without a GPU only the tracing is tried, not the compiler behind it.
            self.model.compile(**({"backend": "eager"} if place.small else {}))

    def __call__(self) -> Tensor:
        """Forward and backward pass; the loss."""
        self.model.zero_grad(set_to_none=True)
        with autocast(self.dtype, self.device):
            value = loss(self.model(*self.clips))
        value.backward()
        return value.detach()

    def peak(self) -> float | None:
        """GiB of a step at its peak beyond what other models hold; None without a GPU."""
        if self.device.type != "cuda":
            return None
        self.model.zero_grad(set_to_none=True)
        own = sum(t.nbytes for t in (*self.model.parameters(), *self.model.buffers(), *self.clips))
        others = torch.cuda.memory_allocated(self.device) - own
        torch.cuda.reset_peak_memory_stats(self.device)
        self()
        return (torch.cuda.max_memory_allocated(self.device) - others) / GIB


def fill_zero_parameters(model: nn.Module) -> None:
    """Let all layers take part: an untrained network's last one is zero, and so all gradients."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)


def steps(place: Place) -> Figures:
    """The first presets beside the definitions and PyTorch's fused attention."""
    return compare_presets(place, FIRST_PRESETS, ("definitions", "fused"))


def steps_beside_compile(place: Place) -> Figures:
    """The first presets beside compiled blocks without our kernels."""
    return compare_presets(place, FIRST_PRESETS, ("torch.compile",))


def steps_beside_flex(place: Place) -> Figures:
    """The first presets beside ``flex_attention``, which compiles a kernel for each size."""
    return compare_presets(place, FIRST_PRESETS, ("flex",))


def steps_of_other_presets(place: Place) -> Figures:
    """All other presets beside the definitions."""
    others = [name for name in PRESETS if name not in FIRST_PRESETS]
    return compare_presets(place, others, ("definitions",))


def compare_presets(place: Place, presets: Sequence[str], rivals: Sequence[str]) -> Figures:
    """Clips a second and memory of presets by kind; without a GPU only of the first one."""
    for preset in presets[:1] if place.small else presets:
        yield preset, compare(place, preset, rivals)
        if not place.small:
            torch.cuda.empty_cache()


def compare(place: Place, preset: str, rivals: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A preset as it is and in other ways, each of which is compared with it."""
    found: dict[str, dict[str, Any]] = {}
    ready: dict[str, Step] = {}
    for kind in ("own", *rivals):
        start = now(place.device)
        try:
            step, peak = prepare(place, preset, kind)
            computes = step.model.describe(place.device, step.dtype or torch.float32)
            shape = list(step.clips[0].shape)
            found[kind] = {"clip": shape, "computes": computes, "peak GiB": peak}
            ready[kind] = step
        except Exception as error:  # the other kinds still tell something
            found[kind] = failed(error)
        found[kind]["first seconds"] = now(place.device) - start
    times = take_turns(ready, place)
    speeds = {kind: ready[kind].batch / statistics.median(times[kind]) for kind in ready}
    for kind, speed in speeds.items():
        found[kind] |= {"clips/s": speed, "ms": [1e3 * seconds for seconds in times[kind]]}
        if kind != "own" and "own" in speeds:
            found[kind][FASTER] = speeds["own"] / speed
    return found


def prepare(place: Place, preset: str, kind: str) -> tuple[Step, float | None]:
    """A step that has run, and its peak; with half of the clips for as long as they do not fit."""
    batch: int | None = None
    while True:
        step = Step(place, preset, kind, batch)
        try:
            step()
            return step, step.peak()
        except torch.OutOfMemoryError:
            if step.batch == 1:
                raise
        batch = step.batch // 2
        del step
        torch.cuda.empty_cache()


def take_turns(ready: Mapping[str, Callable[[], object]], place: Place) -> dict[str, list[float]]:
    """Seconds of each step in every round.

    In its turn a step runs twice and counts once: the first run finds memory that is divided as
    the step before needed it.
    """
    times: dict[str, list[float]] = {kind: [] for kind in ready}
    for _ in range(1 if place.small else ROUNDS):
        for kind, step in ready.items():
            step()
            start = now(place.device)
            step()
            times[kind].append(now(place.device) - start)
    return times


class ClipTask:
    """Restore clips; only what a micro-step asks of a task."""

    def forward(self, model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
        """The restored clips."""
        restored: Tensor = model(*batch)
        return restored

    def losses(self, output: Tensor, batch: Sequence[Tensor], step: int) -> dict[str, Tensor]:
        """The Charbonnier loss."""
        return {"charbonnier": loss(output)}

    def variant(self, step: int) -> int:
        """All steps do the same."""
        return 0


def cuda_graph(place: Place) -> Figures:
    """Micro-steps of ``fast`` as CUDA graphs beside eager ones: losses, gradients, time."""
    losses, gradients, speeds = {}, {}, {}
    # One after the other: no GPU holds the memory of both.
    for kind in ("eager", "graph"):
        losses[kind], gradients[kind], speeds[kind] = run_micro_steps(place, kind)
        if not place.small:
            torch.cuda.empty_cache()
    yield "loss of a replay", close(difference_of(losses), LOSS_LIMIT)
    yield "gradient of a replay", close(difference_of(gradients), GRADIENT_LIMIT)
    yield "clips/s", speeds | {"graph is faster": speeds["graph"] / speeds["eager"]}


def run_micro_steps(place: Place, kind: str) -> tuple[Tensor, Tensor, float]:
    """Loss and gradient of the last of some micro-steps of ``fast``, and clips a second."""
    step = Step(place, "fast")
    micro_steps = micro_steps_of(step, kind)

    def run(number: int) -> Tensor:
        # Another batch in each micro-step, in other tensors, as a data loader gives them.
        batch = tuple(t.roll(number, -1) for t in step.clips)
        micro_steps.begin()
        return micro_steps(batch, number, 0, True)["charbonnier"]

    for number in range(cuda_graphs.WARM_UP + 3):
        found = run(number)
    gradient = gradient_of(step.model)
    times = take_turns({kind: partial(run, number)}, place)
    return found, gradient, step.batch / statistics.median(times[kind])


def micro_steps_of(step: Step, kind: str) -> LaunchedMicroSteps | cuda_graphs.GraphedMicroSteps:
    """The library's micro-steps of a model: ``eager`` or as a ``graph``."""
    device = step.device
    train: Any = SimpleNamespace(PRECISION=step.precision, AMP_INIT_SCALE=2.0**16)
    task = ClipTask()
    work = Work(cast(Task, task), Precision(train, device), 1)
    optimizer = torch.optim.SGD(step.model.parameters())
    ranks = Ranks(0, 0, 1, 1, device)
    if kind == "eager":
        return LaunchedMicroSteps(step.model, work, ranks, optimizer, seed_everything)
    timing = TimingLogger(tempfile.gettempdir(), device.type, enabled=False)
    graphs = cuda_graphs.CudaGraphs(device, timing)
    return cuda_graphs.GraphedMicroSteps(
        step.model, work, ranks, optimizer, seed_everything, graphs, task.variant, insist=True
    )


def gradient_of(model: nn.Module) -> Tensor:
    """All gradients in one row."""
    found = [p.grad.flatten().float() for p in model.parameters() if p.grad is not None]
    return torch.cat(found).clone()


def difference_of(values: Mapping[str, Tensor]) -> float:
    """How far the replay is from eager work, as a share of the norm."""
    return largest(relative_errors([values["graph"]], [values["eager"]]))
