"""What named GPUs can do, by their data sheets, and how much of it kernels are taken to reach.

Dense figures without sparsity, products of half types with sums in float32. Sources: NVIDIA's data
sheets of RTX A6000, GeForce RTX 4090 (Ada architecture white paper), A100 80 GB SXM, H100 SXM and
H200 SXM.
"""

from __future__ import annotations

from dataclasses import dataclass

BANDWIDTH_SHARE = 0.83
MATRIX_SHARE = 0.455
FLOAT32_SHARE = 0.67
ISSUE_SHARE = 0.45
SPECIAL_SHARE = 0.6
"""Shares of the data sheet: 4 of 4.8 TB/s and 450 of 989 TFLOP/s on an H200, which memory-bound
kernels and products with 96 rows or columns reach elsewhere. ISSUE_SHARE is the share of its cycles
in which a processor issues an instruction of a kernel that computes more than it moves, and
SPECIAL_SHARE that in which its unit for exponentials is busy, if these are most of it."""
SPECIAL_CYCLES = 8
"""Of the unit for exponentials for an instruction: four lanes for the 32 threads of a warp."""
SHORTEST_US = 1.5
"""A kernel takes at least this long, launched one after the other by a CUDA graph."""
EAGER_US = 18.0
"""Time of the host for a kernel that is launched from Python, forward and backward pass alike."""


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU.

    Attributes:
        memory_gib: of the device.
        bandwidth: bytes a second.
        half: FLOP/s of matrix products in bfloat16 or float16.
        tf32: the same in TF32.
        float32: FLOP/s outside of tensor cores.
        processors: multiprocessors, each issues four instructions a cycle.
        clock: cycles a second.
    """

    memory_gib: int
    bandwidth: float
    half: float
    tf32: float
    float32: float
    processors: int
    clock: float


GPUS = {
    "A6000": Gpu(48, 0.768e12, 154.8e12, 77.4e12, 38.7e12, 84, 1.80e9),
    "4090": Gpu(24, 1.008e12, 165.2e12, 82.6e12, 82.6e12, 128, 2.52e9),
    "A100": Gpu(80, 2.039e12, 312e12, 156e12, 19.5e12, 108, 1.41e9),
    "H100": Gpu(80, 3.35e12, 989e12, 494e12, 67e12, 132, 1.755e9),
    "H200": Gpu(141, 4.8e12, 989e12, 494e12, 67e12, 132, 1.755e9),
}
