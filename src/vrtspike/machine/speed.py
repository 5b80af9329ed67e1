"""How fast a machine trains: known by its GPU's name, probed, or taken from a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vrtspike.deblurring.costs import TrainingCost, gpu_ms, table
from vrtspike.errors import RunError
from vrtspike.machine.hardware import Machine

TOGETHER = 0.9
"""Share of their speed that several GPUs keep beside each other: an assumption."""


@dataclass(frozen=True)
class Speed:
    """How fast a machine computes.

    Attributes:
        bandwidth: of a GPU, bytes a second by the data sheet; None without one.
        tflops: of all CPUs, for a training step.
        source: where that is from, in words.
    """

    bandwidth: float | None
    tflops: float
    source: str

    def seconds(self, cost: TrainingCost, gpus: int) -> float:
        """Of a whole training on so many GPUs."""
        if self.bandwidth is None:
            return cost.clips * cost.mean.tflop / self.tflops
        share = TOGETHER if gpus > 1 else 1.0
        return cost.clips * gpu_ms(cost.mean, self.bandwidth) / 1e3 / share


def measure_speed(machine: Machine, *, probe: bool, note: Callable[[str], None]) -> Speed:
    """How fast a machine computes: known by its GPU's name, probed, or taken from the table.

    Args:
        machine: this one, or one that is elsewhere.
        probe: whether this machine may be asked.
        note: is told when that takes seconds.

    Raises:
        RunError: if the GPU is not in the table and may not be asked, or does not answer.
    """
    from vrtspike.machine.probe import cpu_tflops, gpu_bandwidth

    gpu, cpu = machine.gpu, table()["cpu"]
    if gpu is not None:
        if gpu.bandwidth is not None:
            return Speed(gpu.bandwidth, 0.0, f"that of {gpu.name} by its data sheet")
        if not probe:
            raise RunError(f"{gpu.name} is not in the table; leave out --no-probe")
        try:
            found = gpu_bandwidth()
        except (RuntimeError, AssertionError) as error:
            raise RunError(f"{gpu.name} does not compute ({error}); see vrtspike doctor") from error
        return Speed(found, 0.0, f"{found / 1e12:.2f} TB/s of memory bandwidth, measured now")
    if probe:
        note("measuring a training step of a small network ...")
        rate = cpu_tflops()
        return Speed(None, rate, f"{1e3 * rate:.0f} GFLOP/s in a training step, measured now")
    rate = cpu["tflops_per_thread"] * machine.cpus
    source = f"{1e3 * rate:.0f} GFLOP/s, as measured on {cpu['name']}"
    return Speed(None, rate, source)
