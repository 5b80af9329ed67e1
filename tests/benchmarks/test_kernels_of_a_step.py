"""What the kernels that a training step launches need of GPUs: registers, stack, shared memory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import step_trace
from kernel_code import compile_kernel
from vrtspike.config.loading import load_preset
from vrtspike.deblurring.models import build_model

REPOSITORY = Path(__file__).resolve().parents[2]
KIB = 1024
# Of a program. GPUs of 8.6 and 8.9 run the code of 8.0 with less; the published layout of the
# deformable convolution does not fit into theirs, and then its trial fails there.
SHARED = {80: 99 * KIB, 90: 227 * KIB, 100: 227 * KIB}
SHARED_DEFORM = {**SHARED, 80: 163 * KIB}
# Some addresses that are read once a window or once a row are no loss.
STACK = 32
TYPES = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int32: "*i32"}

Variant = tuple[Any, tuple[tuple[str, str], ...], tuple[tuple[str, Any], ...]]


def variant(kernel: Any, arguments: dict[str, Any]) -> Variant:
    """A kernel with the types of its arguments and its constants and options."""
    types, constants = {}, {}
    for name, value in arguments.items():
        place = kernel.arg_names.index(name) if name in kernel.arg_names else None
        if isinstance(value, Tensor):
            types[name] = TYPES[value.dtype]
        elif place is not None and not kernel.params[place].is_constexpr:
            types[name] = "fp32" if isinstance(value, float) else "i32"
        else:
            constants[name] = value
    return kernel, tuple(types.items()), tuple(sorted(constants.items()))


def launched(capability: int) -> set[Variant]:
    """The kernels of a step of ``fast``."""
    found: set[Variant] = set()

    def note(kernel: Any, _: object, arguments: dict[str, Any]) -> Any:
        found.add(variant(kernel, arguments))
        return step_trace.Kernel(0.0)

    settings = load_preset(REPOSITORY / "config/presets/fast.yaml")
    data, gpu = settings.DATA, divmod(capability, 10)
    sizes = {"bins": data.NUM_VOXEL_BINS, "clip_len": data.CLIP_LEN, "crop_size": data.CROP_SIZE}
    with (
        step_trace.without_gpu() as mode,
        mock.patch("torch.cuda.get_device_capability", return_value=gpu),
        mock.patch.object(step_trace, "launched", note),
    ):
        with torch.device(step_trace.DEVICE):
            model = build_model(settings.MODEL, **sizes, pretrained=False)
            size = (data.CROP_SIZE, data.CROP_SIZE)
            frames = torch.rand(1, data.CLIP_LEN, 3, *size)
            voxels = torch.rand(1, data.CLIP_LEN, data.NUM_VOXEL_BINS, *size)

        def run() -> Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return model(frames, voxels).float().square().mean()

        step_trace.trace(mode, model, run, lambda _, name: name)
    return found


@pytest.mark.endurance
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize("capability", SHARED)
def test_kernels_of_a_step_fit(capability: int) -> None:
    variants = launched(capability)
    modules = {kernel.__module__.split(".")[-2] for kernel, *_ in variants}
    assert modules == {"window_attention", "projections", "feed_forward", "deform_conv"}
    faults = []
    for kernel, types, values in variants:
        constants = dict(values)
        options = {
            name: constants.pop(name) for name in ("num_warps", "num_stages") if name in constants
        }
        code = compile_kernel(kernel, dict(types), constants, capability, **options)
        said = f"{kernel.__module__}.{kernel.__name__}, {values}: {code}"
        print(said)
        limits = SHARED_DEFORM if "deform_conv" in kernel.__module__ else SHARED
        fits = code.stack <= STACK and code.registers * 32 * options["num_warps"] <= 65536
        if not fits or code.shared > limits[capability]:
            faults.append(said)
    assert not faults, "\n".join(faults)
