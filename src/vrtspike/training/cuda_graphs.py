"""Micro-steps as CUDA graphs; when there are such, :mod:`vrtspike.training.step_graph` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import torch

from vrtspike.monitoring.timing import RecordedSections, TimingLogger
from vrtspike.training.step_graph import Terms


class Draws(Protocol):
    """Decisions by chance that layers take on the host, held on the device for a recorded pass.

    A layer that skips work by chance draws on the host: what is not launched costs nothing. A
    recorded pass runs again without the host, so there it reads what was drawn before each replay.
    """

    def draw(self) -> None:
        """Draw what a pass would draw, in its order, and send it without waiting."""

    def release(self) -> None:
        """Let the layers decide themselves again; what was recorded goes on reading here."""


class NoDraws:
    """The draws of a model that decides nothing on the host."""

    def draw(self) -> None:
        """Draw nothing."""

    def release(self) -> None:
        """Nothing is held."""


Hold: TypeAlias = Callable[[int], Draws]
"""From a number of samples to the draws of a model, whose layers read them from then on."""


class CudaRecorder:
    """Records work of one device as CUDA graphs, which share one pool of memory.

    Random numbers of the device are those that the default generator gives at the replay: a graph
    reads its seed and offset from the device. The loss scale is a tensor there as well. Everything
    else that a replay reads stays where it is: parameters, gradients, batches.

    Args:
        device: a CUDA device.
        timing: tells the sections of each replay.
        hold: the draws of the model.
    """

    def __init__(self, device: torch.device, timing: TimingLogger, hold: Hold) -> None:
        self._device, self._timing, self._hold = device, timing, hold
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Terms], samples: int) -> CudaRecording:
        """Capture ``work`` on a batch of ``samples``; nothing is computed by that.

        Raises:
            RuntimeError: if it holds what cannot be captured.
        """
        graph, draws = torch.cuda.CUDAGraph(), self._hold(samples)
        try:
            with (
                # Other threads pin memory and ask for events meanwhile.
                torch.cuda.graph(
                    graph,
                    pool=self._pool,
                    stream=self._stream,
                    capture_error_mode="thread_local",
                ),
                self._timing.recording() as sections,
            ):
                terms = work()
        except BaseException:
            self._renew_generator()
            raise
        finally:
            draws.release()
        return CudaRecording(graph, terms, draws, sections, self._timing)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Run the body on the stream on which work is captured.

        Backward adds gradients on the stream of their parameter's first use, which has to be this.
        """
        main = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            yield
        main.wait_stream(self._stream)

    def release(self) -> None:
        """Give the memory of graphs that are gone back to the device."""
        self._pool = torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()

    def _renew_generator(self) -> None:
        # One that took part in a capture which failed refuses to be used outside of it.
        index = self._device.index or 0
        fresh = torch.Generator(self._device)
        torch.cuda.default_generators[index].graphsafe_set_state(fresh)


class CudaRecording:
    """A captured micro-step; made by :meth:`CudaRecorder.record`."""

    def __init__(
        self,
        graph: torch.cuda.CUDAGraph,
        terms: Terms,
        draws: Draws,
        sections: RecordedSections,
        timing: TimingLogger,
    ) -> None:
        self._graph, self._terms, self._draws = graph, terms, draws
        self._sections, self._timing = sections, timing

    def replay(self) -> Terms:
        """Launch it on the current stream; returns copies of its terms."""
        self._draws.draw()
        with self._timing.replaying(self._sections):
            self._graph.replay()
        return {name: term.clone() for name, term in self._terms.items()}
