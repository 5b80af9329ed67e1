"""Hardware of a machine: CPUs, memory and GPUs; and the time of a training step on it.

The time of a step is predicted from its operations, memory traffic and arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from vrtspike.launching.gpus import usable_gpus
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.monitoring.timing import time_call
from vrtspike.system.cpus import available_cpus
from vrtspike.system.errors import RunError
from vrtspike.training.flops import measure_peak

USABLE = 0.9
"""Share of the memory that a training may fill."""
TRAINING_EFFICIENCY = 0.48
"""FLOP/s of a training step relative to a matrix product: measured with ``demo`` on two cores, 0.38
to 0.48 under load."""
_COPY_BYTES = 1 << 28
_COPIES = 5


@dataclass(frozen=True)
class StepSpeed:
    """Speed of a device in training steps.

    Attributes:
        operation_s: seconds to launch an operation.
        bandwidth: TB/s that the inputs and outputs of operations move through its memory.
        tflops: TFLOP/s of matrix products.
    """

    operation_s: float
    bandwidth: float
    tflops: float

    def seconds(self, operations: float, moved_tb: float, tflop: float) -> float:
        """Predict the time of counted operations; arguments as in ``ClipCost``.

        >>> StepSpeed(1e-5, 2.0, 500.0).seconds(operations=10_000, moved_tb=4.0, tflop=50.0)
        2.2
        """
        launches = operations * self.operation_s
        traffic = moved_tb / self.bandwidth
        arithmetic = tflop / self.tflops
        return launches + traffic + arithmetic


H100_BANDWIDTH = 3.35
"""TB/s of the memory of an H100 SXM by its data sheet."""
H100 = StepSpeed(operation_s=15e-6, bandwidth=1.53, tflops=989.0)
"""An H100 SXM with 16 CPUs and PyTorch 2.11.

Seconds and TB/s are fitted to the measured steps of four presets and the counts of their commit,
both in ``benchmarks/results/gpu_nvidia_h100_80gb_hbm3.json``. Attention, which then kept scores,
was counted as its products, softmax and mask. The TFLOP/s in bfloat16 are those of the data sheet
and matter little. Other shares of launches and traffic fit nearly as well, so each of the two is
known to about a factor of 1.5."""

GPUS = {
    "A6000": ("NVIDIA RTX A6000", 48, 0.768, 155.0),
    "4090": ("NVIDIA GeForce RTX 4090", 24, 1.008, 165.0),
    "A100": ("NVIDIA A100-SXM4-80GB", 80, 2.039, 312.0),
    "H100": ("NVIDIA H100 80GB HBM3", 80, H100_BANDWIDTH, H100.tflops),
    "H200": ("NVIDIA H200", 141, 4.8, 989.0),
}
"""Driver's name and GiB of memory; TB/s of memory and TFLOP/s in bfloat16 by the data sheet, by
short name."""


@dataclass(frozen=True)
class MachineGpus:
    """The GPUs of a machine.

    Attributes:
        name: name of the first GPU.
        count: number of usable GPUs.
        memory_gib: memory of the smallest GPU.
    """

    name: str
    count: int
    memory_gib: float

    @property
    def data_sheet(self) -> tuple[float, float] | None:
        """TB/s of memory and TFLOP/s in bfloat16; None for cards that are not in :data:`GPUS`.

        >>> [MachineGpus(f"NVIDIA H100 {kind}", 1, 80).data_sheet for kind in ("80GB HBM3", "PCIe")]
        [(3.35, 989.0), None]
        """
        for short_name, (card, _, bandwidth, tflops) in GPUS.items():
            if self.name in (short_name, card):
                return bandwidth, tflops
        return None


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        cpus: number of usable CPUs.
        memory_gib: memory of the machine, or of the container.
        gpu: GPUs of the machine; None without GPUs.
        step_speed: speed of one GPU, or of all CPUs.
        speed_description: ``step_speed`` and its source in words.
    """

    cpus: int
    memory_gib: float
    gpu: MachineGpus | None
    step_speed: StepSpeed
    speed_description: str

    @property
    def gpu_count(self) -> int:
        """Number of GPUs; 0 without any."""
        return 0 if self.gpu is None else self.gpu.count

    @property
    def usable_gib(self) -> float:
        """Memory that a training may fill: of a GPU, or of the system without one."""
        return USABLE * (self.memory_gib if self.gpu is None else self.gpu.memory_gib)


def speed_of_gpu(bandwidth: float, tflops: float) -> StepSpeed:
    """Scale the speed of the H100 to another GPU.

    A launch takes equally long, since it is the CPU's work.

    Args:
        bandwidth: TB/s of the GPU's memory.
        tflops: its TFLOP/s of matrix products in bfloat16.
    """
    share = H100.bandwidth / H100_BANDWIDTH
    return StepSpeed(H100.operation_s, share * bandwidth, tflops)


def this_machine(gpu: MachineGpus | None) -> Machine:
    """Describe this machine with its own or other GPUs.

    Raises:
        RunError: if the GPU does not work.
    """
    return Machine(available_cpus(), system_memory().total / 1024, gpu, *measure_speed(gpu))


def find_gpus() -> MachineGpus | None:
    """Find the GPUs that this process may use; None without GPU or driver."""
    # Devices of a batch system that NVML does not see have no size.
    gpus = [gpu for gpu in usable_gpus() if gpu.total]
    if not gpus:
        return None
    smallest = min(gpu.total for gpu in gpus) / 2**30
    return MachineGpus(gpus[0].name, len(gpus), smallest)


def named_gpu(name: str, count: int) -> MachineGpus:
    """Describe GPUs of another machine, from :data:`GPUS`.

    Raises:
        RunError: if the name is unknown.
    """
    kind = name.upper()
    if kind not in GPUS:
        raise RunError(f"--gpu {name}: expected {', '.join(GPUS)}; or run on that machine")
    return MachineGpus(kind, count, GPUS[kind][1])


def measure_speed(gpu: MachineGpus | None) -> tuple[StepSpeed, str]:
    """Estimate the speed of training steps, and return it with its source in words.

    For a GPU from its data sheet, or from a measurement on this machine if it is not listed.

    Args:
        gpu: GPUs of this machine or of another one; None measures the CPUs of this machine.

    Raises:
        RunError: if the GPU does not work.
    """
    if gpu is None:
        rate = TRAINING_EFFICIENCY * measure_peak(torch.device("cpu"), torch.float32) / 1e12
        text = f"{1e3 * rate:.0f} GFLOP/s in a training step, by a product now"
        # The rate is that of whole steps, launches and traffic included.
        return StepSpeed(operation_s=0.0, bandwidth=math.inf, tflops=rate), text
    rates = gpu.data_sheet
    source = f"of {gpu.name}'s data sheet"
    if rates is None:
        source = "of a copy now"
        device = torch.device("cuda")
        try:
            rates = measure_bandwidth(device), measure_peak(device, torch.bfloat16) / 1e12
        except (RuntimeError, AssertionError) as error:
            raise RunError(f"{gpu.name} does not compute ({error}); see vrtspike doctor") from error
    bandwidth, tflops = rates
    speed = speed_of_gpu(bandwidth, tflops)
    text = (
        f"{1e6 * speed.operation_s:.1f} us an operation and {speed.bandwidth:.2f} TB/s in a "
        f"training step, by {bandwidth:.2f} TB/s of memory {source}"
    )
    return speed, text


def measure_bandwidth(device: torch.device) -> float:
    """Measure the TB/s that a copy in a device's memory reads and writes, the best of several."""
    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = min(time_call(device, lambda: target.copy_(source)) for _ in range(_COPIES))
    return 2 * _COPY_BYTES / best / 1e12
