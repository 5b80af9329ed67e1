"""Memory and arithmetic of a training step, counted on tensors without data.

Nothing is computed: PyTorch's fake tensors have sizes and types and no values, so a laptop counts
a step that only a large GPU could run. Types are those of autocast on a CPU, attention recomputes
its scores as ``MODEL.VRT.ATTENTION: recompute`` does; what libraries and PyTorch's allocator take
beside the tensors is not counted.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from vrtspike.deblurring.losses.charbonnier import charbonnier
from vrtspike.deblurring.models import build_model
from vrtspike.training.precision import Precision

if TYPE_CHECKING:
    from vrtspike.deblurring.settings import Settings

_CPU = torch.device("cpu")


class StorageCounter(TorchDispatchMode):
    """Counts the storages that operations make while it is entered.

    Attributes:
        now: bytes of those alive.
        peak: the most there were at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, int] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and note what it returns."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self.add(tensor)
        return found

    def leave_out(self, tensor: Tensor) -> None:
        """Do not count what exists already, whichever operation returns it or a view of it."""
        self._note(tensor, 0)

    def add(self, tensor: Tensor) -> None:
        """Count what exists already, or what an operation has made."""
        self._note(tensor, tensor.untyped_storage().nbytes())

    def _note(self, tensor: Tensor, size: int) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = size
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


@dataclass(frozen=True)
class StepCost:
    """What forward and backward pass of one micro-step need.

    Attributes:
        working: bytes at the most beside weights, gradients and the optimizer's state: the batch,
            activations, their gradients, temporary results.
        forward_flop: floating-point operations of matrix products and convolutions.
        flop: the same with the backward pass, and what it computes again.
        parameters: of the model.
    """

    working: int
    forward_flop: int
    flop: int
    parameters: int


def _convolution_backward(
    grad: Any,  # noqa: ANN401 - shapes, as PyTorch calls it
    x: Any,  # noqa: ANN401
    weight: Any,  # noqa: ANN401
    _bias: Any,  # noqa: ANN401
    _stride: Any,  # noqa: ANN401
    _padding: Any,  # noqa: ANN401
    _dilation: Any,  # noqa: ANN401
    transposed: bool,
    _output_padding: Any,  # noqa: ANN401
    _groups: int,
    output_mask: Any,  # noqa: ANN401
    **_: Any,  # noqa: ANN401
) -> int:
    """As many for each gradient as in the forward pass; PyTorch's own formula forgets groups."""
    each = conv_flop_count(list(x), list(weight), list(grad), transposed=transposed)
    return each * (int(output_mask[0]) + int(output_mask[1]))


FORMULAS = {torch.ops.aten.convolution_backward: _convolution_backward}


def count_step(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> StepCost:
    """Count a micro-step.

    Args:
        model: its parameters hold gradients already, as after the first micro-step of a step.
        batch: what ``loss`` reads.
        loss: runs the forward pass; the result is back-propagated.
    """
    memory = StorageCounter()
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        memory.leave_out(tensor)
        if tensor.grad is not None:
            memory.leave_out(tensor.grad)
    for tensor in batch:
        memory.add(tensor)
    with memory:
        loss().backward()
    # A pass of its own: the hooks of this mode hold what a step alone would have freed.
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as work:
        value = loss()
        forward = work.get_total_flops()
        value.backward()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return StepCost(memory.peak, int(forward), int(work.get_total_flops()), parameters)


def step_cost(settings: Settings, side: int) -> StepCost:
    """What a micro-step of one clip of a preset needs; nothing on the device is allocated.

    Args:
        settings: of the preset.
        side: of the crops in pixels.
    """
    frames, bins = settings.DATA.CLIP_LEN, settings.DATA.NUM_VOXEL_BINS
    vrt = settings.MODEL.VRT.model_copy(update={"ATTENTION": "recompute"})
    recomputing = settings.MODEL.model_copy(update={"VRT": vrt})
    with FakeTensorMode(allow_non_fake_inputs=True), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = build_model(settings.model_copy(update={"MODEL": recomputing}), pretrained=False)
        precision = Precision(settings.TRAIN, _CPU)
        precision.prepare(model)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        blur = torch.empty(1, frames, 3, side, side)
        voxels = torch.empty(1, frames, bins, side, side)

        def loss() -> Tensor:
            with precision.autocast():
                restored = model(blur, voxels).float()
            return charbonnier(restored, torch.zeros_like(restored))

        return count_step(model, (blur, voxels), loss)
