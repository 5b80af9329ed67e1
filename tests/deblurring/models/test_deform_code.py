"""Machine code of the alignment's kernels: what they need on GPUs that are not here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from vrtspike.deblurring.models.deform.guide import constants as guide_constants
from vrtspike.deblurring.models.deform.kernel import constants, launch_options

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton"),
]

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
FEATURES = {"x": "*bf16", "raw": "*bf16", "shift": "*fp32", "flow": "*fp32"}
SIZES = {"begin": "i32", "height": "i32", "width": "i32", "magnitude": "fp32"}
WEIGHTS = {"weight": "*bf16", "bias": "*fp32", "columns": "*bf16"}
GRADIENTS = {"grad": "*bf16", "grad_x": "*fp32", "grad_raw": "*bf16", "grad_flow": "*fp32"}
PAIRS = {"pairs": "i32", "steps": "i32", "guide": "*bf16", "out": "*bf16"}
TYPES = {**FEATURES, **SIZES, **WEIGHTS, **GRADIENTS, **PAIRS}
# What learns from the first step on; the flow with its alignment may start later.
WANTED = {"FOR_X": True, "FOR_RAW": True, "FOR_FLOW": True, "FOR_WEIGHT": True}
# At most, by Triton 3.6 to 3.9: registers of a thread, bytes of shared memory, instructions of the
# loop over sampling points (the guide's kernels have none).
BOUNDS = {
    ("forward_kernel", 80): (112, 50_000, 540),
    ("forward_kernel", 90): (128, 66_000, 650),
    ("forward_kernel", 100): (96, 50_000, 560),
    ("input_kernel", 80): (200, 50_000, 1_200),
    ("input_kernel", 90): (128, 50_000, 730),
    ("input_kernel", 100): (128, 50_000, 770),
    ("guide_kernel", 90): (56, 1_100, 0),
    ("guide_gradient_kernel", 80): (192, 5_000, 0),
    ("guide_gradient_kernel", 90): (104, 5_000, 0),
    ("guide_gradient_kernel", 100): (104, 5_000, 0),
}


@pytest.mark.parametrize(("name", "capability"), BOUNDS)
def test_kernels_of_the_published_alignment_fit(
    name: str, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from kernel_code import compile_kernel

    from vrtspike.deblurring.models.deform import guide_kernels, triton_kernels

    values: dict[str, Any] = guide_constants(96)
    module: Any = guide_kernels
    if not name.startswith("guide"):
        forward = name == "forward_kernel"
        options = launch_options(divmod(capability, 10), forward=forward, adds=not forward)
        values = {**constants(16, 96, torch.bfloat16), **options}
        module = triton_kernels
    kernel = getattr(module, name)
    # The gradient is part of that of features and what is aligned with them.
    arguments = {**values, **WANTED, "PITCH": 288}
    options = {key: arguments.pop(key) for key in ("num_warps", "num_stages") if key in arguments}
    types = {key: TYPES[key] for key in kernel.arg_names if key in TYPES}
    code = compile_kernel(kernel, types, arguments, capability, **options)
    registers, shared, loop = BOUNDS[name, capability]
    assert code.stack == 0
    assert code.registers <= registers
    assert code.shared <= shared
    assert max(code.loops, default=0) <= loop
