"""Micro-steps as CUDA graphs; when there are such, :mod:`vrtspike.training.step_graph` decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from vrtspike.host_draws import DrawTable, drawing_from
from vrtspike.monitoring.timing import RecordedSections, TimingLogger
from vrtspike.training.step_graph import Terms


class CudaRecorder:
    """Records work of one device as CUDA graphs, which share one pool of memory.

    Random numbers of the device are those that the default generator gives at the replay: a graph
    reads its seed and offset from the device. The loss scale is a tensor there as well. Everything
    else that a replay reads stays where it is: parameters, gradients, batches.

    Args:
        model: whose layers may decide on the host.
        device: a CUDA device.
        timing: tells the sections of each replay.
    """

    def __init__(self, model: nn.Module, device: torch.device, timing: TimingLogger) -> None:
        self._model, self._device, self._timing = model, device, timing
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Terms]) -> CudaRecording:
        """Capture ``work``; nothing is computed by that.

        Raises:
            RuntimeError: if it holds what cannot be captured.
        """
        graph, table = torch.cuda.CUDAGraph(), DrawTable(self._device)
        main = torch.cuda.current_stream(self._device)
        try:
            with (
                drawing_from(table, self._model),
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
            # Not every version of PyTorch comes back from its own stream where a capture fails.
            torch.cuda.set_stream(main)
            self._renew_generator()
            raise
        return CudaRecording(graph, terms, table, sections, self._timing)

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
        table: DrawTable,
        sections: RecordedSections,
        timing: TimingLogger,
    ) -> None:
        self._graph, self._terms, self._table = graph, terms, table
        self._sections, self._timing = sections, timing

    def replay(self) -> Terms:
        """Launch it on the current stream; returns copies of its terms."""
        self._table.redraw()
        with self._timing.replaying(self._sections):
            self._graph.replay()
        return {name: term.clone() for name, term in self._terms.items()}
