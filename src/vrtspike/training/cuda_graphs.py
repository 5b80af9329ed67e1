"""Micro-steps as CUDA graphs: warmed up, captured by ``torch.cuda.graph``, checked and replayed.

A micro-step of a large model is tens of thousands of kernel launches, which take the host longer
than the work takes the GPU; the replay of a CUDA graph is one launch. What a graph reads and writes
stays at the addresses of the capture: parameters, buffers, gradients, the loss scale and the batch,
into which each later micro-batch is copied.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from vrtspike.errors import ConfigError, RunError
from vrtspike.monitoring.timing import TimingLogger, section
from vrtspike.training.distributed import Ranks, average_gradients, send_from_first
from vrtspike.training.micro_steps import Seed, Terms
from vrtspike.training.tasks import Batch

if TYPE_CHECKING:
    from vrtspike.config.run_schema import TrainSettings

WARM_UP = 3
"""Eager micro-steps before a capture, as PyTorch's documentation advises. In them libraries choose
algorithms, Triton compiles and loads kernels, and buffers of constants are made: a capture must not
do any of that."""

TOLERANCE = 1e-2
"""How far loss terms and gradient norms of a replay may be from those of the eager micro-step,
relative to them. Both launch the same kernels; only atomic additions come in another order."""


class CudaGraphs:
    """Captures work on one device as CUDA graphs that share a pool of memory.

    The graphs must be replayed one after another, never at once.

    Args:
        device: a CUDA device.
        timing: times the sections of captured work at each replay.
    """

    def __init__(self, device: torch.device, timing: TimingLogger) -> None:
        self._device, self._timing = device, timing
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Run the body on the stream of the capture, where it also has to be warmed up."""
        main = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            yield
        main.wait_stream(self._stream)

    def capture(self, work: Callable[[], Terms]) -> Callable[[], Terms]:
        """Capture ``work``; that computes nothing.

        Returns:
            a function that replays the graph on the current stream. It returns the tensors of the
            capture, whose values the next replay overwrites.

        Raises:
            RuntimeError: if ``work`` does what a capture forbids, such as waiting for the device.
        """
        graph = torch.cuda.CUDAGraph()
        # Threads of the data loader pin memory meanwhile, which the mode "global" would forbid.
        mode = "thread_local"
        try:
            with (
                self.side_stream(),
                torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode=mode),
                self._timing.recording() as sections,
            ):
                terms = work()
        except BaseException:
            # After a failed capture the generator that took part in it refuses eager use.
            generator = torch.cuda.default_generators[self._device.index or 0]
            generator.graphsafe_set_state(torch.Generator(self._device))
            raise

        def replay() -> Terms:
            with self._timing.replaying(sections):
                graph.replay()
            return terms

        return replay

    def release(self) -> None:
        """Return the memory of deleted graphs to the device."""
        self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()


@dataclass(frozen=True)
class _MicroBatch:
    """A micro-batch; its ``tensors`` are listed before the work can attach others to ``batch``."""

    batch: Batch
    number: int
    step: int
    tensors: list[torch.Tensor]


@dataclass(frozen=True)
class _Graph:
    """A captured micro-step and the tensors that it reads its batch from."""

    tensors: list[torch.Tensor]
    replay: Callable[[], Terms]


class GraphedMicroSteps:
    """Micro-steps that are replayed; gradients stay in place and are exchanged after the replay.

    There is a graph for each variant of the step, for batches of one layout (shapes, types and
    values that are no tensors). A batch of another layout, such as the last one of an epoch, is run
    eagerly; a layout is captured once there were enough batches of it in a row.

    Graphs keep the memory of a whole micro-step. They are deleted before eager ones, so that the
    device never holds both, and are captured again in the time of about one eager micro-step.

    Before a replay all generators are seeded for the micro-batch, and modules of the model with a
    method ``redraw()`` draw again what they draw on the host, in the order of ``model.modules()``.

    Args:
        model: on its device, in its precision.
        work: forward, loss and backward of a micro-step, given model, batch and finished steps.
        ranks: the processes.
        optimizer: of the model.
        seed: for a micro-batch.
        graphs: of the device.
        variant: of the task, see :class:`~vrtspike.training.tasks.Task`.
        insist: whether it is an error, not a warning, if CUDA graphs cannot be used.
    """

    note = "micro-steps are replayed as CUDA graphs"

    def __init__(
        self,
        model: nn.Module,
        work: Callable[[nn.Module, Batch, int], Terms],
        ranks: Ranks,
        optimizer: torch.optim.Optimizer,
        seed: Seed,
        graphs: CudaGraphs,
        variant: Callable[[int], Hashable],
        *,
        insist: bool,
    ) -> None:
        self._model, self._work, self._ranks = model, work, ranks
        self._optimizer, self._seed, self._variant = optimizer, seed, variant
        self._cuda, self._insist, self._is_given_up = graphs, insist, False
        # As DistributedDataParallel begins.
        send_from_first([*model.parameters(), *model.buffers()], ranks)
        redraws = (getattr(module, "redraw", None) for module in model.modules())
        self._redraws = [redraw for redraw in redraws if callable(redraw)]
        self._graphs: dict[Hashable, _Graph] = {}
        self._warm: Counter[Hashable] = Counter()
        self._checked: set[Hashable] = set()
        self.rebuild()

    def begin(self) -> None:
        """Set the gradients to zero, where they are."""
        self._optimizer.zero_grad(set_to_none=False)

    def rebuild(self) -> None:
        """Give every parameter that learns a gradient, and begin again with the warm-up."""
        for parameter in self._model.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        self._gradients = [p.grad for p in self._model.parameters() if p.grad is not None]
        self._restart(None)

    def free_memory(self) -> None:
        """Delete the graphs; the next micro-step captures again, without warm-up."""
        if self._graphs:
            self._graphs.clear()
            self._cuda.release()

    def __call__(self, batch: Batch, number: int, step: int, last: bool) -> Terms:
        """Run a micro-step like :class:`~vrtspike.training.micro_steps.LaunchedMicroSteps`.

        Raises:
            RunError: if CUDA graphs cannot be used and must be.
        """
        tensors: list[torch.Tensor] = []
        layout = _layout(batch, tensors)
        if layout != self._known_layout:
            self._restart(layout)
        terms = self._run(self._variant(step), _MicroBatch(batch, number, step, tensors))
        if last and self._ranks.world_size > 1:
            with section("sync"):
                average_gradients(self._gradients, self._ranks)
                send_from_first(self._model.buffers(), self._ranks)
        return terms

    def _run(self, variant: Hashable, micro: _MicroBatch) -> Terms:
        if self._is_given_up or self._warm[variant] < WARM_UP:
            self._warm[variant] += 1
            return self._launch(micro)
        if variant not in self._checked:
            return self._check(variant, micro)
        graph = self._graphs.get(variant) or self._capture(variant, micro)
        return self._launch(micro) if graph is None else self._replay(graph, micro)

    def _launch(self, micro: _MicroBatch) -> Terms:
        """Run a micro-step eagerly."""
        self.free_memory()
        self._seed(micro.number)
        with self._cuda.side_stream():
            return self._work(self._model, micro.batch, micro.step)

    def _capture(self, variant: Hashable, micro: _MicroBatch) -> _Graph | None:
        """Capture a variant, whose graph reads its batches from where this one is.

        Nothing is compiled for the first time within the capture: eager micro-steps have launched
        the same kernels on batches of the same layout. What is random, such as the factors of
        stochastic depth, is always data on the device that kernels read.

        Returns:
            None if that failed; all goes on eagerly then.
        """
        # Not the random numbers of the micro-batch: in the check those that a replay does not draw
        # again make a difference.
        self._seed(~micro.number)
        try:
            replay = self._cuda.capture(lambda: self._work(self._model, micro.batch, micro.step))
        except Exception as error:  # of the driver, of a library, of memory
            # The end of a capture only says that it was broken before.
            cause = error.__context__ or error
            self._give_up(f"{type(cause).__name__}: {cause}")
            return None
        self._graphs[variant] = _Graph(micro.tensors, replay)
        return self._graphs[variant]

    def _replay(self, graph: _Graph, micro: _MicroBatch) -> Terms:
        for place, tensor in zip(graph.tensors, micro.tensors, strict=True):
            place.copy_(tensor, non_blocking=True)
        self._seed(micro.number)
        for redraw in self._redraws:
            redraw()
        return {name: term.clone() for name, term in graph.replay().items()}

    def _check(self, variant: Hashable, micro: _MicroBatch) -> Terms:
        """Run a micro-step eagerly, capture and replay it, and compare; it counts once.

        A replay that computes something else would raise no error. What a graph does not read again
        (a batch, a random number) or counts twice shows in loss terms and gradient norms.
        """
        before = [gradient.clone() for gradient in self._gradients]
        buffers = [buffer.clone() for buffer in self._model.buffers()]
        self.begin()
        terms = self._launch(micro)
        expected = self._figures(terms)
        # An overflow, as float16 meets them, cannot be compared; the next micro-step may be.
        if all(map(math.isfinite, expected)) and (graph := self._capture(variant, micro)):
            self._undo(buffers)
            found = self._figures(self._replay(graph, micro))
            pairs = zip(expected, found, strict=True)
            if all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in pairs):
                self._checked.add(variant)
            else:
                del graph
                self._give_up(
                    f"loss terms and gradient norm of a replay are {found}, those of launched "
                    f"kernels {expected}"
                )
                self._undo(buffers)
                terms = self._launch(micro)
        torch._foreach_add_(self._gradients, before)
        return terms

    def _figures(self, terms: Terms) -> list[float]:
        """The loss terms and the norm of all gradients."""
        norm = nn.utils.get_total_norm(self._gradients)
        return torch.stack([term.float() for term in (*terms.values(), norm)]).tolist()

    def _undo(self, buffers: list[torch.Tensor]) -> None:
        """Clear the gradients and give buffers their values again."""
        self.begin()
        for buffer, value in zip(self._model.buffers(), buffers, strict=True):
            if not torch.equal(buffer, value):  # leaves constants alone, which may be views
                buffer.copy_(value)

    def _give_up(self, fault: str) -> None:
        """Run all micro-steps eagerly from here on."""
        self._is_given_up = True
        self._graphs.clear()
        # Also where there was no graph, but a failed capture.
        self._cuda.release()
        if self._insist:
            raise RunError(
                f"TRAIN.CUDA_GRAPH is on, but micro-steps cannot be captured as a CUDA graph: "
                f"{fault}. Set it to auto or off"
            )
        warnings.warn(
            f"micro-steps are launched kernel by kernel, which is slower: as a CUDA graph they "
            f"cannot be used ({fault}). TRAIN.CUDA_GRAPH: off leaves the attempt out",
            stacklevel=2,
        )

    def _restart(self, layout: object) -> None:
        """Begin again with the warm-up, for batches of another layout or other gradients."""
        self.free_memory()
        self._known_layout = layout
        self._warm.clear()
        self._checked.clear()


def _layout(value: Any, tensors: list[torch.Tensor]) -> Any:  # noqa: ANN401 - what a task prepares
    """What a batch must have in common with another one to take its place in a graph.

    Args:
        value: tensors and plain values in mappings, sequences and dataclasses.
        tensors: the tensors of ``value`` are appended here, in the order of the layout.

    Returns:
        equal for equal structures, shapes, types and plain values. Anything unknown may differ from
        batch to batch unseen, so it equals nothing.
    """
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return value.shape, value.stride(), value.dtype, value.device
    if isinstance(value, Mapping):
        return [(name, _layout(part, tensors)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [_layout(part, tensors) for part in value]
    return value if isinstance(value, bool | int | float | str | None) else object()


def may_capture(train: TrainSettings, device: torch.device, has_variants: bool) -> bool:
    """Whether micro-steps are captured, as far as can be told before the first.

    Args:
        train: CUDA_GRAPH, COMPILE_MODEL and COMPILE_MODE are read.
        device: where the run computes.
        has_variants: whether the task has a method ``variant(step)``.

    Raises:
        ConfigError: if they cannot be, and CUDA_GRAPH is on.
    """
    obstacle = ""
    if device.type != "cuda":
        obstacle = f"this run computes on a device of type {device.type}, which has no CUDA graphs"
    elif train.COMPILE_MODEL and train.COMPILE_MODE != "default":
        obstacle = f"TRAIN.COMPILE_MODE {train.COMPILE_MODE} makes graphs of its own"
    elif not has_variants:
        obstacle = "the task has no method variant(step), which tells whether steps are the same"
    if obstacle and train.CUDA_GRAPH == "on":
        raise ConfigError(f"TRAIN.CUDA_GRAPH is on, but {obstacle}; set it to auto or off")
    return train.CUDA_GRAPH != "off" and not obstacle
