"""Memory of a run: of this process, its workers, the machine and the GPU (by category).

And what a training step needs, counted: under PyTorch's ``FakeTensorMode``, whose tensors have
sizes and types and no values, nothing is computed, so that a laptop counts a step that only a large
GPU could run. What libraries and PyTorch's allocator take beside the tensors is not counted.
"""

from __future__ import annotations

import itertools
import resource
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pynvml
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from vrtspike.io.files import atomic_write_text, write_json
from vrtspike.monitoring.process_memory import MEGABYTE, system_memory

HIGH_PERCENT = 90.0


def measure_memory(device: torch.device) -> dict[str, Any]:
    """Memory in megabytes (2**20 bytes) now, as a JSON value.

    Returns:
        ``process_mb`` and ``children_mb`` (resident, data loading workers are children),
        ``process_peak_mb`` (resident, since the start),
        ``system_used_mb``, ``system_total_mb`` and ``system_percent`` of the machine or of the
        container, whichever has less, and ``gpu``: None on a CPU,
        else ``utilisation_percent`` (from :func:`gpu_utilisation`),
        ``allocated_mb``, ``reserved_mb``, ``peak_mb`` (allocated, since the start) and
        ``total_mb``.
    """
    system = system_memory()
    process = psutil.Process()
    return {
        "process_mb": process.memory_info().rss // MEGABYTE,
        "process_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "children_mb": sum(map(_resident, process.children(recursive=True))) // MEGABYTE,
        "system_used_mb": int(system.used),
        "system_total_mb": int(system.total),
        "system_percent": round(100 * system.used / system.total, 1),
        "gpu": _gpu(device),
    }


def gpu_utilisation(device: torch.device) -> int | None:
    """GPU utilisation in percent, from the driver.

    None if it is unknown: for a MIG instance, or in a container without the driver's library.
    """
    try:
        return torch.cuda.utilization(device)
    except (pynvml.NVMLError, RuntimeError):
        return None


def memory_line(record: dict[str, Any]) -> str:
    """A line of the memory log in words."""
    parts = [
        f"process {record['process_mb']} MB and {record['children_mb']} MB in workers",
        f"system {record['system_percent']:.0f} % of {record['system_total_mb']} MB",
    ]
    gpu, cache = record["gpu"], record["cache"]
    if gpu is not None:
        parts.append(
            f"GPU {gpu['allocated_mb']} MB allocated, {gpu['reserved_mb']} MB reserved, peak "
            f"{gpu['peak_mb']} MB of {gpu['total_mb']} MB"
        )
    if cache is not None:
        filled = "full" if cache["full"] else "not full"
        parts.append(
            f"cache {cache['items']} items, {filled}, limit {cache['limit_mb']:.0f} MB, "
            f"{cache['hits']} hits, {cache['misses']} misses ({cache['hit_rate']:.0%} hits)"
        )
    return f"memory after step {record['step']}: {'; '.join(parts)}"


def categories_line(record: dict[str, Any]) -> str:
    """The result of :func:`gpu_categories` in words."""
    names = ("parameters", "gradients", "optimizer", "activations", "peak")
    known = {name: record[f"{name}_mb"] for name in names if record[f"{name}_mb"] is not None}
    return "memory by category: " + ", ".join(f"{name} {mb:.1f} MB" for name, mb in known.items())


def memory_warnings(record: dict[str, Any]) -> Iterator[str]:
    """Warnings if the memory of the machine or the GPU is nearly full, with keys to lower."""
    percent, gpu = record["system_percent"], record["gpu"]
    if percent >= HIGH_PERCENT:
        yield (
            f"system memory is {percent:.0f} % full (this run: {record['process_mb']} MB and "
            f"{record['children_mb']} MB in workers); lower DATA.CACHE_SIZE_GB or "
            "DATALOADER.TRAIN_WORKERS before the system ends the run"
        )
    if gpu is not None and 100 * gpu["peak_mb"] >= HIGH_PERCENT * gpu["total_mb"]:
        yield (
            f"GPU memory was {100 * gpu['peak_mb'] / gpu['total_mb']:.0f} % full at its peak; to "
            "save memory, lower TRAIN.BATCH_SIZE"
        )


def gpu_categories(
    model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> dict[str, Any]:
    """GPU memory at its peak by category, in megabytes.

    Activations are the peak less parameters, gradients and optimiser state. On a CPU
    ``activations_mb`` and ``peak_mb`` are None.
    """
    sizes = {
        "parameters_mb": _megabytes([*model.parameters(), *model.buffers()]),
        "gradients_mb": _megabytes(parameter.grad for parameter in model.parameters()),
        "optimizer_mb": _megabytes(tree_leaves(list(optimizer.state.values()))),
    }
    peak: float | None = None
    activations: float | None = None
    if device.type == "cuda":
        peak = round(torch.cuda.max_memory_allocated(device) / MEGABYTE, 2)
        activations = round(max(0.0, peak - sum(sizes.values())), 2)
    return {"kind": "gpu_categories", **sizes, "activations_mb": activations, "peak_mb": peak}


def write_snapshot(folder: Path, contents: dict[str, Any], device: torch.device) -> Path:
    """Write the contents of a device's memory after an out-of-memory error.

    Args:
        folder: for ``out_of_memory.json`` and, on CUDA, ``out_of_memory.txt`` (the allocator's own
            summary) and ``out_of_memory.pickle`` (for https://pytorch.org/memory_viz).
        contents: of the memory by category, from :func:`gpu_categories`.
        device: whose memory is full.

    Returns:
        the JSON file.
    """
    path = folder / "out_of_memory.json"
    write_json(path, {**measure_memory(device), "categories": contents})
    if device.type == "cuda":
        atomic_write_text(path.with_suffix(".txt"), torch.cuda.memory_summary(device))
        torch.cuda.memory._dump_snapshot(str(path.with_suffix(".pickle")))
    return path


def _megabytes(values: Iterable[object]) -> float:
    """Of the tensors among these values."""
    return round(sum(v.nbytes for v in values if isinstance(v, Tensor)) / MEGABYTE, 2)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0  # a worker that has just ended


def _gpu(device: torch.device) -> dict[str, Any] | None:
    if device.type != "cuda":
        return None
    return {
        "utilisation_percent": gpu_utilisation(device),
        "allocated_mb": torch.cuda.memory_allocated(device) // MEGABYTE,
        "reserved_mb": torch.cuda.memory_reserved(device) // MEGABYTE,
        "peak_mb": torch.cuda.max_memory_allocated(device) // MEGABYTE,
        "total_mb": torch.cuda.get_device_properties(device).total_memory // MEGABYTE,
    }


class StorageCounter(TorchDispatchMode):
    """Counts the storages that operations make while it is entered.

    Attributes:
        now: bytes of those alive.
        peak: the most there were at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: set[int] = set()
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as PyTorch calls it
        """Run an operation and note what it returns."""
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self.note(tensor)
        return found

    def note(self, tensor: Tensor, *, counts: bool = True) -> None:
        """Count a storage that is new here.

        Args:
            tensor: what an operation has made, or what exists already.
            counts: false if neither it nor a view of it is to be counted.
        """
        storage = tensor.untyped_storage()
        key, size = storage._cdata, counts * storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.remove(key)
        self.now -= size


@dataclass(frozen=True)
class StepCost:
    """Memory that forward and backward pass of one micro-step need.

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
    grad: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    *options: Any,  # noqa: ANN401 - as PyTorch calls it
    **_: object,
) -> int:
    """As many for each gradient as in the forward pass; PyTorch's own formula forgets groups."""
    *_others, transposed, _padding, _groups, output_mask = options
    each = conv_flop_count(list(x), list(weight), list(grad), transposed=transposed)
    return each * (int(output_mask[0]) + int(output_mask[1]))


FORMULAS = {torch.ops.aten.convolution_backward: _convolution_backward}


def count_step(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> StepCost:
    """Count a micro-step; arguments as for :func:`working_bytes`."""
    working = working_bytes(model, batch, loss)
    # A pass of its own: the hooks of this mode hold what a step alone would have freed.
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as work:
        value = loss()
        forward = work.get_total_flops()
        value.backward()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return StepCost(working, int(forward), int(work.get_total_flops()), parameters)


def working_bytes(model: nn.Module, batch: Sequence[Tensor], loss: Callable[[], Tensor]) -> int:
    """The memory of a micro-step (:attr:`StepCost.working`).

    Args:
        model: gets gradients of zero, as if this were not the first micro-step of a step.
        batch: what ``loss`` reads.
        loss: runs the forward pass; the result is back-propagated.
    """
    memory = StorageCounter()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
        memory.note(parameter.grad, counts=False)
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        memory.note(tensor, counts=False)
    for tensor in batch:
        memory.note(tensor)
    with memory:
        loss().backward()
    return memory.peak
