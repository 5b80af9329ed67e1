"""Does a GPU compute what the definitions say? Parts of ``gpu.py``.

Without a GPU the same checks run on a CPU at small sizes; then they try the checks.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import torch
from gpu_parts import Figures, Place
from torch import Tensor, nn

from vrtspike.deblurring.models import kernel_trust
from vrtspike.deblurring.models.vrt import VRT
from vrtspike.deblurring.models.vrt_spike import VRTSpike
from vrtspike.deblurring.models.weights import load_vrt
from vrtspike.deblurring.models.window_attention.agreement import (
    difference_of_kept,
    largest_difference,
)
from vrtspike.deblurring.models.window_attention.choice import IMPLEMENTATIONS
from vrtspike.deblurring.models.windows import Size3

REPOSITORY = Path(__file__).resolve().parent.parent
BINS = 4
# Windows that the trial before a first step leaves out, (size, mutual): those of presets with
# windows of 7 and 6, and of single frames.
OTHERS: tuple[tuple[Size3, bool], ...] = (
    ((6, 7, 7), False),
    ((2, 7, 7), True),
    ((6, 6, 6), False),
    ((1, 8, 8), False),
)


def attention_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The attention kernels as before a first step, on a larger map."""
    from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention

    return largest_difference(triton_attention, device, dtype, (6, 20, 36))


def attention_trial_of_other_windows(device: torch.device, dtype: torch.dtype) -> float:
    """The attention kernels on the windows of the other presets and on clips of five frames."""
    from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention

    return largest_difference(triton_attention, device, dtype, (5, 20, 36), OTHERS)


def attention_trial_of_some_samples(device: torch.device, dtype: torch.dtype) -> float:
    """The attention kernels where stochastic depth drops one of two samples."""
    from vrtspike.deblurring.models.window_attention.triton_attention import triton_attention

    return difference_of_kept(triton_attention, device, dtype)


def token_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The kernels of feed-forward layers and projections, of stages 1-7 and 8."""
    from vrtspike.deblurring.models.token_ops.agreement import largest_difference as difference

    sizes = (
        (96, (5, 16, 24), (2, 8, 8)),
        (120, (6, 13, 20), (6, 7, 7)),
        (96, (5, 9, 14), (6, 6, 6)),
    )
    return difference(device, dtype, sizes)


def alignment_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The kernels of the deformable alignment and of its guide."""
    from vrtspike.deblurring.models.deform.agreement import largest_difference as difference

    return difference(device, dtype, ((1, 3, 16, 6, 96, 45, 64), (2, 2, 4, 8, 32, 9, 5)))


def gate_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The kernels of the gate of layers too wide for those of feed-forward layers."""
    from vrtspike.deblurring.models.token_ops.gate_agreement import largest_difference as difference

    return difference(device, dtype)


def tap_sums_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The kernels that sum the taps of the spike encoder's convolutions."""
    from vrtspike.deblurring.models.tap_sums.agreement import largest_difference as difference

    return difference(device, dtype)


def norms_trial(device: torch.device, dtype: torch.dtype) -> float:
    """The kernels of layer norms between stages and before the fusion's direct path."""
    from vrtspike.deblurring.models.norms.agreement import largest_difference as difference

    return difference(device, dtype)


HALF = (torch.bfloat16, torch.float16)
ALL = (*HALF, torch.float32)
TRIALS: dict[str, tuple[kernel_trust.Trial, Sequence[torch.dtype]]] = {
    "window attention": (attention_trial, ALL),
    "window attention, other windows": (attention_trial_of_other_windows, ALL),
    "window attention, some samples": (attention_trial_of_some_samples, ALL),
    "token layers": (token_trial, ALL),
    "gate of GEGLU": (gate_trial, ALL),
    "alignment": (alignment_trial, HALF),
    "layer norms": (norms_trial, ALL),
    "convolutions over time": (tap_sums_trial, ALL),
}
"""Kernels of our own: what runs one and its definition, and tells the largest difference of results
and gradients as a share of the norm; and its types. A line here is all that a new kernel needs."""


def kernels_agree(place: Place) -> Figures:
    """Every kernel of our own against its definition, in all of its types."""
    for dtype in ALL:  # the one of the presets first: each takes its time to compile
        for name, (trial, types) in TRIALS.items():
            if dtype in types:
                yield f"{name}, {str(dtype).removeprefix('torch.')}", agreement(trial, place, dtype)


def agreement(trial: kernel_trust.Trial, place: Place, dtype: torch.dtype) -> dict[str, Any]:
    """A trial's difference and whether the kernel would be trusted; what it raises is a reason."""
    try:
        difference = trial(place.device, dtype)
    except Exception as error:  # compilers and drivers have exceptions of their own
        return {"agrees": False, "reason": f"{type(error).__name__}: {error}"[:2000]}
    limit = kernel_trust._TOLERANCES[dtype]
    return close(difference, limit)


def close(difference: float, limit: float) -> dict[str, Any]:
    """A difference and whether it is within its limit."""
    found: dict[str, Any] = {"agrees": difference <= limit, "limit": limit}
    if difference == difference:  # JSON has no NaN
        return found | {"difference": difference, "reason": f"{difference:.1e} of the norm"}
    return found | {"reason": "not a number"}


def relative(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    return ((found - expected).norm() / expected.norm()).item()


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The float32 tensors of a safetensors file, without the package."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        if about["dtype"] == "F32":
            start, end = (8 + length + offset for offset in about["data_offsets"])
            values = torch.frombuffer(data[start:end], dtype=torch.float32)
            found[name] = values.reshape(about["shape"])
    return found


# Of the norm, by autocast's type: what is added to the input, and the worst of the gradients (that
# of the flow). On a CPU the definition is 0.03 and 0.21 off in bfloat16, by rounding alone.
GOLDEN_LIMITS: dict[torch.dtype | None, tuple[float, float]] = {
    None: (1e-3, 1e-3),
    torch.bfloat16: (0.15, 0.4),
}


def golden(place: Place) -> Figures:
    """The published model's output and gradients, by every implementation, in fp32 and bf16."""
    folder = Path(place.golden)
    if not folder.is_dir():
        yield "golden files", {"present": False}
        return
    files = ("vrt_tiny_io.safetensors", "vrt_tiny_weights.safetensors")
    tensors, weights = (read_safetensors(folder / name) for name in files)
    arguments = json.loads((folder / "vrt_tiny_config.json").read_text())
    del arguments["upscale"]
    with exact_products():
        names = ["explicit", "recompute"] if place.small else list(IMPLEMENTATIONS)
        for dtype in GOLDEN_LIMITS if not place.small else [None]:
            for name in names:
                vrt = VRT(**arguments, attention=name)
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
        return {"agrees": False, "reason": f"{type(error).__name__}: {error}"[:2000]}
    parameters = dict(vrt.named_parameters())
    prefix = "t5.grad."
    gradients = [
        relative(parameters[name.removeprefix(prefix)].grad, expected)  # type: ignore[arg-type]
        for name, expected in tensors.items()
        if name.startswith(prefix)
    ]
    restored = relative(output - blur, tensors["t5.output"] - tensors["t5.input"])
    limits = GOLDEN_LIMITS[dtype]
    # Python's max() would pass over a NaN.
    worst = torch.tensor(gradients).max().item()
    return {
        "agrees": restored <= limits[0] and worst <= limits[1],
        "output": restored,
        "gradients": worst,
        "reason": f"output {restored:.1e}, gradients {worst:.1e} of the norm",
    }


@contextmanager
def exact_products() -> Iterator[None]:
    """Float32 products that are not rounded to ten bits (TF32)."""
    cudnn, matmul = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = cudnn, matmul


def small_model(device: torch.device) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A small network with spikes, all of its parts used, and a clip."""
    torch.manual_seed(0)
    vrt = VRT(
        img_size=(3, 32, 32),
        window_size=(2, 4, 4),
        depths=(2,) * 7 + (1,) * 4,
        embed_dims=(16,) * 7 + (24,) * 4,
        num_heads=(2,) * 11,
        deformable_groups=4,
    )
    model = VRTSpike(vrt, bins=BINS, clip_len=3).to(device)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)
    clip = torch.rand(1, 3, 3, 32, 32, device=device)
    return model, (clip, torch.randn(1, 3, BINS, 32, 32, device=device))


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    clips: tuple[Tensor, Tensor],
    steps: int,
) -> list[float]:
    """Losses of steps."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = ((model(*clips) - 0.5).square() + 1e-6).sqrt().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def resume(place: Place) -> Figures:
    """Four steps, and two and two with everything saved, thrown away and read back between."""
    device = place.device

    def start() -> tuple[nn.Module, torch.optim.Optimizer, tuple[Tensor, Tensor]]:
        model, clips = small_model(device)
        fused = device.type == "cuda"
        return model, torch.optim.AdamW(model.parameters(), 1e-3, fused=fused), clips

    model, optimizer, clips = start()
    torch.manual_seed(1)
    whole = train(model, optimizer, clips, 4)
    model, optimizer, clips = start()
    torch.manual_seed(1)
    halves = train(model, optimizer, clips, 2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.pt"
        random = [torch.get_rng_state()]
        random += [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
        torch.save([model.state_dict(), optimizer.state_dict(), random], file)
        model, optimizer, clips = start()
        torch.rand(5, device=device)
        weights, moments, random = torch.load(file, weights_only=True)
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    torch.set_rng_state(random[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(random[1].cpu(), device)
    halves += train(model, optimizer, clips, 2)
    difference = max(abs(a - b) / a for a, b in zip(whole, halves, strict=True))
    # Sums by atomic additions come in any order on a GPU, and first steps are as large for small
    # gradients as for large ones.
    yield "losses", close(difference, 1e-2 if device.type == "cuda" else 0.0)
    yield "falling", {"agrees": whole[-1] < whole[0], "losses": whole}


def recorded(place: Place) -> Figures:
    """Micro-steps as training records them; the first replay is compared with what was launched."""
    from vrtspike.monitoring.timing import TimingLogger
    from vrtspike.training.cuda_graphs import CudaRecorder
    from vrtspike.training.gradients import FlatGradients
    from vrtspike.training.step_graph import TOLERANCES, WARM_UP, StepGraphs

    device = place.device
    model, clips = small_model(device)

    def work(batch: tuple[Tensor, Tensor], step: int) -> dict[str, Tensor]:
        loss = ((model(*batch) - 0.5).square() + 1e-6).sqrt().mean()
        loss.backward()
        return {"loss": loss.detach()}

    def seed(number: int) -> None:
        torch.manual_seed(number % 1000)

    timing = TimingLogger(tempfile.gettempdir(), device, enabled=False)
    graphs = StepGraphs(
        work,
        CudaRecorder(model, device, timing),
        seed,
        lambda _: 0,
        list(model.buffers()),
        tolerance=TOLERANCES["bf16-mixed"],
        insist=True,  # an error where micro-steps cannot be recorded or do not agree
    )
    gradients: FlatGradients | None = None
    for number in range(WARM_UP + 3):
        terms = graphs(tuple(t.clone() for t in clips), number, 0, gradients)
        gradients = gradients or FlatGradients(model.parameters())
    seed(number)
    expected = work(clips, 0)["loss"]
    yield "last replay", close(relative(terms["loss"], expected), 1e-3)


def events(place: Place) -> Figures:
    """Sections of a step are timed by the device's own clock, not by the host's."""
    from vrtspike.monitoring.timing import TimingLogger, section

    side = 256 if place.small else 4096
    matrix = torch.randn(side, side, device=place.device)
    with tempfile.TemporaryDirectory() as folder:
        timing = TimingLogger(Path(folder), place.device.type, console=False)
        matrix @ matrix
        with timing.activate(), section("step"):
            with section("one"):
                matrix @ matrix
            with section("forty"):
                for _ in range(40):
                    matrix @ matrix
        timing.step()
        timing.close()
        (log,) = (file for file in Path(folder).rglob("*.jsonl"))
        (record,) = (json.loads(line) for line in log.read_text().splitlines() if '"ms"' in line)
    ms = record["ms"]
    yield (
        "sections",
        {
            "agrees": ms["step/forty"] > 8 * ms["step/one"] and ms["step"] >= ms["step/forty"],
            "ms": ms,
        },
    )


def memory_categories(place: Place) -> Figures:
    """Parameters, gradients and moments by arithmetic; activations are the rest of the peak."""
    from vrtspike.monitoring.memory import gpu_categories, measure_memory

    model, clips = small_model(place.device)
    optimizer = torch.optim.AdamW(model.parameters())
    if place.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    train(model, optimizer, clips, 1)
    found = gpu_categories(model, optimizer, place.device)
    own = sum(p.numel() for p in model.parameters()) * 4 / 2**20
    gradients = sum(p.numel() for p in model.parameters() if p.grad is not None) * 4 / 2**20
    parts = (found["gradients_mb"] - gradients, found["optimizer_mb"] - 2 * gradients)
    agrees = max(map(abs, parts)) < 0.1 and found["parameters_mb"] >= own - 0.1
    if place.device.type == "cuda":
        agrees = agrees and found["activations_mb"] > 0
    yield "categories", {"agrees": agrees, **found}
    yield "now", measure_memory(place.device)


def eight_bit_optimiser(place: Place) -> Figures:
    """Moments in 8 bits: the loss falls as with AdamW, and the moments are a quarter."""
    from vrtspike.training.optimizers import build_optimizer

    losses, sizes = {}, {}
    for kind in ("adamw", "adamw8bit"):
        model, clips = small_model(place.device)
        settings = SimpleNamespace(TYPE=kind, BETAS=(0.9, 0.99), WEIGHT_DECAY=0.0, PAGED=False)
        groups: list[dict[str, object]] = [{"params": list(model.parameters()), "lr": 1e-3}]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that bitsandbytes is not there
            optimizer = build_optimizer(groups, settings)  # type: ignore[arg-type]
        torch.manual_seed(1)
        losses[kind] = train(model, optimizer, clips, 5)
        sizes[kind] = sum(
            value.numel() * value.element_size()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        )
    ratio = sizes["adamw8bit"] / sizes["adamw"]
    yield (
        "loss",
        {
            "agrees": losses["adamw8bit"][-1] < losses["adamw8bit"][0],
            "losses": losses,
        },
    )
    yield "moments", {"agrees": ratio < 1, "of AdamW's bytes": ratio}


def marked_tests(place: Place) -> Figures:
    """The tests with the marker ``gpu``."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors", f"--junitxml={report}", "tests"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if not report.is_file():
            yield "pytest", {"agrees": False, "reason": done.stdout[-2000:] + done.stderr[-2000:]}
            return
        yield from outcomes(report)


def outcomes(report: Path) -> Figures:
    """By test how it ended, from pytest's report."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = [found for kind in ("failure", "error") for found in case.iter(kind)]
        skipped = next(case.iter("skipped"), None)
        if bad:
            text = (bad[0].get("message") or "") + "\n" + (bad[0].text or "")
            yield name, {"agrees": False, "reason": text[:1500]}
        elif skipped is not None:
            yield name, {"skipped": skipped.get("message")}
        else:
            yield name, {"agrees": True, "seconds": float(case.get("time", "nan"))}
