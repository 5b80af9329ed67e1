"""What a GPU would do in a micro-step, traced without one.

The model runs on tensors without data that say they are on a CUDA device, under CUDA's rules of
autocast, so it takes the paths it takes on a GPU. Every operation that would launch kernels is
written down with the bytes it reads and writes and its arithmetic.

PyTorch's engine of the backward pass asks the driver for its devices; on a machine without one it
fails on such tensors. The graph is walked here in the same order instead (:func:`backward`).
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._prims_common import suggest_memory_format
from torch.autograd.function import FunctionCtx
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from operation_costs import FREE, Kernel, kernels_of, size_of, tensors_in
from triton_costs import launched
from vrtspike.deblurring.models.ops.launch import TracingMode
from vrtspike.deblurring.models.ops.window_attention import windows
from vrtspike.deblurring.models.stochastic_depth import StochasticDepth
from vrtspike.deblurring.models.tmsa import TMSABlock
from vrtspike.deblurring.traced_step import WITHOUT_CUDNN, LiveStorages

DEVICE = torch.device("cuda", 0)
_ADDED_AT_ONCE = 64
"""Pairs of tensors that PyTorch's kernel over lists takes in a launch."""


@dataclass(frozen=True)
class Launch:
    """A kernel that a GPU would run.

    Attributes:
        part: what of the model it belongs to.
        operation: the operation that launches it.
        kernel: its cost.
        dropped: probability that stochastic depth drops the branch that it belongs to.
    """

    part: str
    operation: str
    kernel: Kernel
    dropped: float = 0.0


@dataclass
class Trace:
    """A traced micro-step.

    Attributes:
        launches: in order.
        kept: bytes that the forward pass keeps for the backward pass, every storage once.
        peak: most bytes at a time, parameters and gradients included.
    """

    launches: list[Launch]
    kept: int = 0
    peak: int = 0


@contextmanager
def without_gpu() -> Iterator[TracingMode]:
    """Tensors without data on a CUDA device that need not be there, and no launches.

    Autocast asks whether there is CUDA before it obeys, checkpointing before it counts a graph's
    pass, and plans of windows are not remembered while tensors have no data.
    """
    plans = cache(windows.build_plan)
    set_materialize = FunctionCtx.set_materialize_grads

    def note(node: Any, value: bool) -> None:  # noqa: ANN401
        set_materialize(node, value)
        node.takes_none = not value

    answers = {
        "torch.autograd.function.FunctionCtx.set_materialize_grads": note,
        "torch.cuda.amp.common.amp_definitely_not_available": lambda: False,
        "torch.cuda.is_bf16_supported": lambda *_, **__: True,
        "torch._C._current_graph_task_id": lambda: 0,
        "torch.cuda.get_device_capability": lambda *_: (9, 0),
        "torch.cuda.get_device_properties": lambda *_: SimpleNamespace(multi_processor_count=132),
        f"{windows.__name__}.build_plan": plans,
        "torch.nn.functional.scaled_dot_product_attention": _sdpa_as_on_cuda,
    }
    mode = TracingMode(lambda *_: None)
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(name, answer))
        stack.enter_context(mode)
        yield mode


def trace(
    mode: TracingMode,
    model: nn.Module,
    run: Callable[[], Tensor],
    part_of: Callable[[Sequence[nn.Module], str], str],
) -> Trace:
    """Trace forward and backward pass of a scalar; inside of :func:`without_gpu`.

    Args:
        mode: that of :func:`without_gpu`.
        model: what ``run`` runs; its parameters count as memory.
        run: makes the scalar.
        part_of: names the part of an operation by the modules around it, the outermost first, and
            the operation's name.
    """
    memory = LiveStorages()
    for parameter in model.parameters():
        if parameter.requires_grad:
            # Gradients add up over micro-steps; only the first of a step finds none.
            parameter.grad = torch.zeros_like(parameter)
    gradients = (p.grad for p in model.parameters() if p.grad is not None)
    for tensor in itertools.chain(model.parameters(), model.buffers(), gradients):
        if tensor.device.type == "cuda":
            memory.add(tensor)
    before = memory.now
    recorder = _Recorder(model, part_of, memory)
    plans = recorder.unrecorded(windows.build_plan)
    once = mock.patch.object(windows, "build_plan", plans)
    mode.note = recorder.note
    with once, _modules(recorder.stack), recorder, _Parts(recorder):
        loss = run()
        kept = memory.now - before
        backward(loss, recorder)
    return Trace(recorder.launches, kept, memory.peak)


def drop_rates(model: nn.Module) -> dict[nn.Module, float]:
    """Rate of stochastic depth of each block of a model."""
    blocks = [module for module in model.modules() if isinstance(module, TMSABlock)]
    rates = [m.rates for m in model.modules() if isinstance(m, StochasticDepth)]
    return dict(zip(blocks, rates[0], strict=True)) if rates else {}


@contextmanager
def _modules(stack: list[nn.Module]) -> Iterator[None]:
    """Keep the modules that are running on a stack."""

    def enter(module: nn.Module, _: object) -> None:
        stack.append(module)

    def leave(module: nn.Module, *_: object) -> None:
        while stack.pop() is not module:
            pass

    hooks = nn.modules.module
    handles = (
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


_sdpa = functional.scaled_dot_product_attention


def _sdpa_as_on_cuda(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
    """The kernel that PyTorch chooses on CUDA where there is a mask with a gradient.

    That is the memory-efficient one, for channels in multiples of eight; for others all scores are
    written out. A machine without CUDA chooses the latter for all.
    """
    if query.shape[-1] % 8:
        return _sdpa(query, key, value, attn_mask)
    mask = attn_mask.expand(*query.shape[:2], -1, -1)
    out: Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, True
    )[0]
    return out


def _as_cudnn_lays_it_out(out: Any, x: Tensor, weight: Tensor) -> Any:  # noqa: ANN401
    """Results of a convolution: channels last where an operand is.

    A machine without cuDNN would give them as plain pictures.
    """
    last = torch.channels_last
    if last not in (suggest_memory_format(x), suggest_memory_format(weight)):
        return out
    if isinstance(out, Tensor):
        return torch.empty_like(out, memory_format=last)
    x_grad, *others = out
    return (None if x_grad is None else torch.empty_like(x_grad, memory_format=last), *others)


class _Recorder(TorchDispatchMode):
    """Writes down the kernels of every operation."""

    def __init__(
        self,
        model: nn.Module,
        part_of: Callable[[Sequence[nn.Module], str], str],
        memory: LiveStorages,
    ) -> None:
        super().__init__()
        self.launches: list[Launch] = []
        self.stack: list[nn.Module] = []
        # The modules of the node whose backward pass runs, instead of those of the stack.
        self.node: tuple[nn.Module, ...] | None = None
        # Gradients of parameters, added to those of earlier micro-steps at the end.
        self.made: list[Tensor] = []
        self._paused = False
        self._part_of = part_of
        self._memory = memory
        self._rates = drop_rates(model)

    def unrecorded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that a model calls once and not in each step, none of whose kernels count."""

        def call(*arguments: Any) -> Any:  # noqa: ANN401
            self._paused = True
            try:
                return function(*arguments)
            finally:
                self._paused = False

        return call

    def modules(self) -> tuple[nn.Module, ...]:
        """The modules around what runs now."""
        if self.stack or self.node is None:
            return tuple(self.stack)
        return self.node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        kwargs = kwargs or {}
        name = func.name()
        if func in WITHOUT_CUDNN:
            with self:
                return WITHOUT_CUDNN[func](*args)
        if not name.startswith("prim") and _is_composite(name):
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        if name in ("aten::convolution", "aten::convolution_backward"):
            x, weight = args[:2] if name == "aten::convolution" else args[1:3]
            out = _as_cudnn_lays_it_out(out, x, weight)
        results = list(tensors_in(out))
        for tensor in results:
            if tensor.device.type == "cuda":
                self._memory.add(tensor)
        launches = any(t.numel() for t in results) and not func.is_view and name not in FREE
        if launches and not self._paused:
            part = self._part_of(self.modules(), name)
            found = kernels_of(func, args, kwargs, out)
            self.launches += [Launch(part, name, kernel) for kernel in found]
        return out

    def add_gradients(self) -> None:
        """Add all gradients that were made, as a captured micro-step does."""
        for first in range(0, len(self.made), _ADDED_AT_ONCE):
            moved = 3.0 * sum(size_of(t) for t in self.made[first : first + _ADDED_AT_ONCE])
            name = "aten::_foreach_add_"
            self.launches.append(Launch(self._part_of((), name), name, Kernel(moved)))
        self.made.clear()

    def note(self, kernel: Any, grid: Any, arguments: dict[str, Any]) -> None:  # noqa: ANN401
        """Write down the launch of a kernel of our own."""
        name = f"{kernel.__module__.split('.')[-2]}.{kernel.__name__}"
        part = self._part_of(self.modules(), f"ops.{name}")
        cost = launched(kernel, grid, arguments)
        self.launches.append(Launch(part, name, cost, self._drop_rate()))

    def _drop_rate(self) -> float:
        """The rate of stochastic depth of the block that runs."""
        running = set(self.modules())
        return next((rate for block, rate in self._rates.items() if block in running), 0.0)


@cache
def _is_composite(name: str) -> bool:
    """Whether an operation is nothing but others."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


class _Parts(TorchFunctionMode):
    """Remembers the modules in which a node of the graph was made."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            node = tensor.grad_fn
            if node is not None:
                _notes(node).setdefault("modules", self._recorder.modules())
        return out


@torch.no_grad()
def backward(loss: Tensor, recorder: _Recorder | None = None) -> None:
    """The backward pass of a scalar, node by node, the latest first, as PyTorch's engine does it.

    What a node keeps is freed once it has run.
    """
    root = loss.grad_fn
    assert root is not None
    first = torch.ones_like(loss)
    del loss
    missing = _consumers(root)
    gradients: dict[Any, list[Tensor | None]] = {root: [first]}
    del first
    order = itertools.count()
    ready = [(-root._sequence_nr(), next(order), root)]
    places: dict[Any, tuple[nn.Module, ...]] = {}
    while ready:
        _, _, node = heapq.heappop(ready)
        # A node that a call made on the way (a cast) belongs to what uses its result.
        inherited = places.pop(node, ())
        place = _notes(node).get("modules") or inherited
        if recorder is not None:
            recorder.node = place
        given = gradients.pop(node)
        if recorder is not None and node.name().endswith("AccumulateGrad"):
            recorder.made += [gradient for gradient in given if gradient is not None]
            continue
        results = _run(node, given)
        edges = node.next_functions
        del node
        for (other, number), gradient in zip(edges, results, strict=False):
            if other is None:
                continue
            places.setdefault(other, place)
            if gradient is not None:
                gradient = _fitting(gradient, other._input_metadata[number])
            _add(gradients.setdefault(other, []), number, gradient)
            missing[other] -= 1
            if not missing[other]:
                del missing[other]
                heapq.heappush(ready, (-_sequence(other), next(order), other))
        other = None
    if recorder is not None:
        recorder.node = None
        recorder.add_gradients()


def _notes(node: Any) -> dict[str, Any]:  # noqa: ANN401
    """What may be written down on a node; PyTorch's annotations call it a method."""
    notes: dict[str, Any] = node.metadata
    return notes


def _sequence(node: Any) -> int:  # noqa: ANN401 - a node of any class
    """When a node was made; gradients of leaves are added at once."""
    return 2**62 if node.name().endswith("AccumulateGrad") else node._sequence_nr()


def _consumers(root: Any) -> dict[Any, int]:  # noqa: ANN401
    """How many gradients each node waits for."""
    counts: dict[Any, int] = defaultdict(int)
    seen, stack = {root}, [root]
    while stack:
        for other, _ in stack.pop().next_functions:
            if other is None:
                continue
            counts[other] += 1
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return counts


def _add(buffer: list[Tensor | None], number: int, gradient: Tensor | None) -> None:
    """Add a gradient of one of a node's results to what has come."""
    buffer += [None] * (number + 1 - len(buffer))
    if gradient is not None:
        there = buffer[number]
        buffer[number] = gradient if there is None else there + gradient


def _fitting(gradient: Tensor, expected: Any) -> Tensor:  # noqa: ANN401
    """A gradient in the shape and type of what it is for, as PyTorch's engine hands it on."""
    shape = tuple(expected.shape)
    if gradient.shape != shape:
        gradient = gradient.sum_to_size(shape)
    return gradient.to(expected.dtype)


def _run(node: Any, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:  # noqa: ANN401
    """Call a node with a gradient for each of its results."""
    metadata = node._input_metadata
    given = gradients + [None] * (len(metadata) - len(gradients))
    if all(gradient is None for gradient in given):
        return [None] * len(node.next_functions)
    call = node
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        call = node.apply
        if not getattr(node, "takes_none", False):
            given = [
                torch.zeros(tuple(m.shape), dtype=m.dtype, device=m.device) if g is None else g
                for g, m in zip(given, metadata, strict=True)
            ]
    results = call(*given)
    results = results if isinstance(results, tuple) else (results,)
    if call is node:
        return results
    # Of a function in Python: one for each argument, but edges only for arguments that are tensors.
    wanted = iter([r for r, need in zip(results, node.needs_input_grad, strict=True) if need])
    return [None if other is None else next(wanted) for other, _ in node.next_functions]
