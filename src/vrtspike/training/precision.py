"""Precision of a run: deterministic kernels, autocast, loss scaling, and weights in bfloat16."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from vrtspike.training.half_precision_weights import HalfPrecisionWeights

if TYPE_CHECKING:
    from vrtspike.config.run_schema import RunSettings, TrainSettings


_COMPUTE_DTYPES = {
    "32": torch.float32,
    "16-mixed": torch.float16,
    "bf16-mixed": torch.bfloat16,
    "bf16-true": torch.bfloat16,
}
"""Types of matrix products in the forward pass."""


def resolve_precision(name: str, device: torch.device) -> str:
    """Return the arithmetic of a device for a value of TRAIN.PRECISION.

    ``mixed`` is the device's best half precision: CPUs, and GPUs from Ampere on, use bfloat16,
    which needs no loss scaling; older GPUs use float16. ``16-mixed`` is ``32`` on a CPU, which
    computes float16 slowly.
    """
    if name == "16-mixed" and device.type == "cpu":
        return "32"
    if name != "mixed":
        return name
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return "16-mixed"
    return "bf16-mixed"


def set_numerics(settings: RunSettings, device: torch.device) -> None:
    """Set PyTorch's global options on deterministic kernels and reduced precision.

    Args:
        settings: ``DETERMINISTIC`` is read.
        device: device on which the run computes.
    """
    if settings.DETERMINISTIC:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # On CUDA the gradient of grid_sample (warping) has no deterministic implementation, so that
        # an error would make training impossible; a warning names it.
        torch.use_deterministic_algorithms(True, warn_only=device.type == "cuda")
    elif device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    # The gradient of a weight sums over all tokens of a clip: products of half precision accumulate
    # in float32 and are rounded once.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


class Precision:
    """Arithmetic of a training step: ``32``, ``16-mixed``, ``bf16-mixed`` or ``bf16-true``.

    Args:
        train: section TRAIN; ``PRECISION`` and ``AMP_INIT_SCALE`` are read.
        device: device on which the run computes.
    """

    def __init__(self, train: TrainSettings, device: torch.device) -> None:
        self.name = resolve_precision(train.PRECISION, device)
        self.compute_type = _COMPUTE_DTYPES[self.name]
        self._device = device
        self._first_scale = train.AMP_INIT_SCALE
        self.scaler = torch.amp.GradScaler(
            device.type,
            init_scale=self._first_scale,
            enabled="16-mixed" in (train.PRECISION, self.name),
        )
        """Scaler of the loss, enabled for ``16-mixed``.

        On a CPU, too, so that a GPU can continue from its checkpoints, and it from theirs.
        """

    def prepare(self, model: nn.Module) -> None:
        """Convert a model and its floating-point inputs to bfloat16 for ``bf16-true``, in place."""
        if self.name == "bf16-true":
            model.to(torch.bfloat16)
            model.register_forward_pre_hook(_inputs_to_bfloat16, with_kwargs=True)

    def forward_module(self, model: nn.Module, *, half_precision_weights: bool) -> nn.Module:
        """Return the module that a micro-step calls.

        In float16, gradients that sum over all pixels could overflow: ``16-mixed`` casts weights
        one by one.

        Args:
            model: the model.
            half_precision_weights: it computes with all of its weights in bfloat16, for
                ``bf16-mixed``
                (:attr:`vrtspike.training.objectives.TrainingParts.half_precision_weights`).

        Returns:
            the model itself, or one that calls it with casts of its weights.
        """
        if half_precision_weights and self.name == "bf16-mixed":
            return HalfPrecisionWeights(model, self.compute_type)
        return model

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context of the forward pass."""
        is_mixed = self.name.endswith("-mixed")
        return torch.autocast(self._device.type, self.compute_type, enabled=is_mixed)

    def full_precision(self) -> AbstractContextManager[object]:
        """Return the context of losses: float32, without autocast."""
        return torch.autocast(self._device.type, enabled=False)

    def step(self, optimizer: torch.optim.Optimizer, finite: bool) -> None:
        """Apply the optimiser's step if the gradients are finite; adapt the loss scale."""
        if finite or self.scaler.is_enabled():
            self.scaler.step(optimizer)
        self.scaler.update()
        # Without float16 the loss scale would grow without bound, and be useless if the run
        # continues on a GPU.
        if self.compute_type == torch.float32 and self.scaler.get_scale() > self._first_scale:
            self.scaler.update(self._first_scale)


def _inputs_to_bfloat16(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def convert(value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.bfloat16) if value.is_floating_point() else value

    return tree_map_only(torch.Tensor, convert, (args, kwargs))
