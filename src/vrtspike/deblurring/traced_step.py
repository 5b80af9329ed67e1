"""A training step traced on tensors without data: what it would launch, and the memory it needs.

Nothing is computed and nothing on the device is written: the model is a copy whose parameters have
sizes, types and a device, and no values.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vrtspike.deblurring.kernel_compilation import KernelLaunch, launch_of
from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.models import Restorer
from vrtspike.deblurring.models.ops.dispatch import Operation
from vrtspike.deblurring.models.ops.launch import TracingMode
from vrtspike.training.precision import Precision

if TYPE_CHECKING:
    from vrtspike.deblurring.settings import Settings

_WEIGHT_BYTES = 4
_MOMENT_BYTES = {"adamw": 8, "adamw8bit": 2}


def _sample(x: Tensor, grid: Tensor) -> Tensor:
    return torch.ops.aten.grid_sampler_2d(x, grid, 0, 0, True)


def _sample_backward(x: Tensor, grid: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    mask = [True, True]
    return torch.ops.aten.grid_sampler_2d_backward(grad, x, grid, 0, 0, True, mask)


WITHOUT_CUDNN: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.cudnn_grid_sampler.default: _sample,
    torch.ops.aten.cudnn_grid_sampler_backward.default: _sample_backward,
}
"""PyTorch's own operations for those of cuDNN that know no tensors without data: PyTorch would run
these on zeros instead. Its own move the same bytes."""


class LiveStorages:
    """Bytes of the storages of tensors that are alive, and the most there were.

    Attributes:
        now: bytes of those alive.
        peak: the most there were.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self.now = self.peak = 0

    def add(self, tensor: Tensor) -> None:
        """Count a tensor's storage, once, until it is freed."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


class _Launches(TracingMode):
    """Notes launches, each once."""

    def __init__(self) -> None:
        super().__init__(self._add)
        self.found: dict[KernelLaunch, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation on tensors without data."""
        if func in WITHOUT_CUDNN:
            with self:
                return WITHOUT_CUDNN[func](*args)
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _add(self, kernel: Any, _: Any, arguments: dict[str, Any]) -> None:  # noqa: ANN401
        # Not the tensors themselves, which would count as memory of the step.
        self.found[launch_of(kernel, arguments)] = None


def step_launches(model: Restorer, settings: Settings, device: torch.device) -> list[KernelLaunch]:
    """The kernels of ours that training and validation of a model launch.

    Args:
        model: neither written to nor moved; gradients are not touched.
        settings: of the run: clips, crops of all phases, precision, frozen parts.
        device: where the run computes.
    """
    crops = {phase.CROP_SIZE for phase in settings.TRAIN.PROGRESSIVE}
    mode = _Launches()
    with mode, torch.random.fork_rng(devices=()):
        for crop in sorted(crops | {settings.DATA.CROP_SIZE}):
            _pass(_without_data(model, device), settings, device, crop, learns=True)
        flow = set(model.rate_groups()["flow"])
        if settings.TRAIN.FREEZE_FLOW_STEPS:
            frozen = _without_data(model, device)
            for name, parameter in frozen.named_parameters():
                parameter.requires_grad_(parameter.requires_grad and name not in flow)
            _pass(frozen, settings, device, settings.DATA.CROP_SIZE, learns=True)
        # Stochastic depth drops nothing in a validation, for which there are kernels of their own.
        validated = _without_data(model, device).eval()
        _pass(validated, settings, device, settings.DATA.CROP_SIZE, learns=False)
    return list(mode.found)


def trial_launches(
    operations: Iterable[Operation], device: torch.device, dtype: torch.dtype
) -> list[KernelLaunch]:
    """The kernels that the trials of operations launch.

    Args:
        operations: to be tried.
        device: where.
        dtype: type of the products.
    """
    mode = _Launches()
    with mode:
        for operation in operations:
            operation.trial(device, dtype)
    return list(mode.found)


def peak_bytes(model: Restorer, settings: Settings, device: torch.device, crop: int) -> int:
    """Memory that a training step needs at its fullest, as the model is now dispatched.

    Parameters, gradients, moments and the moving average are part of it; PyTorch's libraries and
    gaps between allocations are not.

    Args:
        model: as for :func:`step_launches`.
        settings: of the run.
        device: where the run computes.
        crop: side of the crops in pixels.
    """
    with _Launches(), torch.random.fork_rng(devices=()):
        traced = _without_data(model, device)
        memory = StorageCounter()
        with memory:
            learning = [p for p in traced.parameters() if p.requires_grad]
            for parameter in learning:
                # Gradients add up over micro-steps: all but the first of a step find some.
                parameter.grad = torch.zeros_like(parameter)
            _pass(traced, settings, device, crop, learns=True)
        kept = itertools.chain(traced.parameters(), traced.buffers())
        fixed = sum(t.untyped_storage().nbytes() for t in kept)
    values = sum(p.numel() for p in learning)
    fixed += values * _MOMENT_BYTES[settings.TRAIN.OPTIM.TYPE]
    fixed += values * _WEIGHT_BYTES * (settings.TRAIN.EMA > 0)
    return fixed + memory.storages.peak


def _without_data(model: Restorer, device: torch.device) -> Restorer:
    """A copy of a model whose parameters and buffers have no data; within a tracing mode."""
    known: dict[int, Any] = {}
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        if isinstance(tensor, nn.Parameter):
            bare = nn.Parameter(bare, requires_grad=tensor.requires_grad)
        known[id(tensor)] = bare
    return copy.deepcopy(model, known)


def _pass(
    model: Restorer, settings: Settings, device: torch.device, crop: int, *, learns: bool
) -> None:
    """Forward pass of a micro-step, and its backward pass where the model learns."""
    data, precision = settings.DATA, Precision(settings.TRAIN, device)
    size = (settings.TRAIN.BATCH_SIZE, data.CLIP_LEN)
    blur = torch.empty(*size, 3, crop, crop, device=device)
    voxels = torch.empty(*size, data.NUM_VOXEL_BINS, crop, crop, device=device)
    precision.prepare(model)
    with nullcontext() if learns else torch.no_grad(), precision.autocast():
        restored = model(blur, voxels).float()
    if learns:
        charbonnier(restored, torch.zeros_like(restored)).backward()


class StorageCounter(TorchDispatchMode):
    """Counts the storages that operations make while it is entered.

    Attributes:
        storages: those alive, and the most there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.storages = LiveStorages()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and note what it returns."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self.storages.add(tensor)
        return found
