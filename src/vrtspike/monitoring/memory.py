"""Memory of a run: of this process, its workers, the machine and the GPU (by category)."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pynvml
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from vrtspike.io.files import atomic_write_text, write_json
from vrtspike.monitoring.process_memory import HIGH_PERCENT, MEGABYTE, system_memory

if TYPE_CHECKING:
    from vrtspike.config.run_schema import RunSettings


def measure_memory(device: torch.device) -> dict[str, Any]:
    """Measure the memory in use, in megabytes (2**20 bytes), as a JSON value.

    Returns:
        ``process_mb`` and ``children_mb`` (resident, data loading workers are children),
        ``process_peak_mb`` (resident, since the start),
        ``system_used_mb``, ``system_total_mb`` and ``system_percent`` of the machine or of the
        container, whichever has less, and ``gpu``: None on a CPU,
        else ``utilisation_percent`` (from :func:`gpu_utilization`),
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


def gpu_utilization(device: torch.device) -> int | None:
    """Return the GPU utilisation in percent, from the driver.

    None if it is unknown: for a MIG instance, or in a container without the driver's library.
    """
    try:
        return torch.cuda.utilization(device)
    except (pynvml.NVMLError, RuntimeError):
        return None


def memory_line(record: dict[str, Any]) -> str:
    """Format a record of the memory log as a line of text."""
    parts = [
        f"process {record['process_mb']} MB and {record['children_mb']} MB in workers",
        f"system {record['system_percent']:.0f} % of {record['system_total_mb']} MB",
    ]
    gpu = record["gpu"]
    if gpu is not None:
        parts.append(
            f"GPU {gpu['allocated_mb']} MB allocated, {gpu['reserved_mb']} MB reserved, peak "
            f"{gpu['peak_mb']} MB of {gpu['total_mb']} MB"
        )
    cache = record["cache"]
    if cache is not None:
        filled = "full" if cache["full"] else "not full"
        parts.append(
            f"cache {cache['items']} items, {filled}, limit {cache['limit_mb']:.0f} MB, "
            f"{cache['hits']} hits, {cache['misses']} misses ({cache['hit_rate']:.0%} hits)"
        )
    return f"memory after step {record['step']}: {'; '.join(parts)}"


def categories_line(record: dict[str, Any]) -> str:
    """Format the result of :func:`gpu_categories` as a line of text."""
    names = ("parameters", "gradients", "optimizer", "activations", "peak")
    sizes = {name: record[f"{name}_mb"] for name in names}
    parts = [f"{name} {mb:.1f} MB" for name, mb in sizes.items() if mb is not None]
    return f"memory by category: {', '.join(parts)}"


def memory_warnings(record: dict[str, Any], settings: RunSettings) -> Iterator[str]:
    """Yield warnings if the memory of the machine or the GPU is nearly full, with keys to change.

    Args:
        record: a record of the memory log.
        settings: settings of the run, whose keys can save memory.
    """
    percent = record["system_percent"]
    if percent > HIGH_PERCENT:
        keys = []
        if settings.cache_gb > 0:
            keys.append(settings.cache_key)
        if settings.DATALOADER.workers != 0:
            keys.append(settings.DATALOADER.workers_key)
        advice = f"lower {' or '.join(keys)}" if keys else "end other programs"
        yield (
            f"system memory is {percent:.0f} % full (this run: {record['process_mb']} MB and "
            f"{record['children_mb']} MB in workers); {advice} before the system ends the run"
        )
    gpu = record["gpu"]
    if gpu is not None and 100 * gpu["peak_mb"] > HIGH_PERCENT * gpu["total_mb"]:
        yield (
            f"GPU memory was {100 * gpu['peak_mb'] / gpu['total_mb']:.0f} % full at its peak; to "
            f"save memory: {'; '.join(settings.memory_saving_changes) or 'a GPU with more memory'}"
        )


def gpu_categories(
    model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> dict[str, Any]:
    """Return the GPU memory at its peak by category, in megabytes.

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
        folder: folder for ``out_of_memory.json`` and, on CUDA, ``out_of_memory.txt`` (the
            allocator's own summary) and ``out_of_memory.pickle`` (for
            https://pytorch.org/memory_viz).
        contents: memory by category, from :func:`gpu_categories`.
        device: the device whose memory is full.

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
    """Return the size of the tensors among some values."""
    return round(sum(v.nbytes for v in values if isinstance(v, Tensor)) / MEGABYTE, 2)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0  # the worker has just ended


def _gpu(device: torch.device) -> dict[str, Any] | None:
    if device.type != "cuda":
        return None
    return {
        "utilisation_percent": gpu_utilization(device),
        "allocated_mb": torch.cuda.memory_allocated(device) // MEGABYTE,
        "reserved_mb": torch.cuda.memory_reserved(device) // MEGABYTE,
        "peak_mb": torch.cuda.max_memory_allocated(device) // MEGABYTE,
        "total_mb": torch.cuda.get_device_properties(device).total_memory // MEGABYTE,
    }
