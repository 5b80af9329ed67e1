"""Time of a training step on a device, from its operations, memory traffic and arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass


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


def speed_of_gpu(bandwidth: float, tflops: float) -> StepSpeed:
    """Scale the speed of the H100 to another GPU.

    A launch takes equally long, since it is the CPU's work.

    Args:
        bandwidth: TB/s of the GPU's memory.
        tflops: its TFLOP/s of matrix products in bfloat16.
    """
    share = H100.bandwidth / H100_BANDWIDTH
    return StepSpeed(H100.operation_s, share * bandwidth, tflops)


def speed_of_cpu(tflops: float) -> StepSpeed:
    """Return the speed of a CPU, whose ``tflops`` are those of whole training steps."""
    return StepSpeed(operation_s=0.0, bandwidth=math.inf, tflops=tflops)
