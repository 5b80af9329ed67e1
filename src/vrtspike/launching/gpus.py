"""Selection of free GPUs for a run or for inference, with a lock file for each GPU.

Snakemake on one machine counts GPUs but assigns no devices. Each run therefore locks its GPUs, and
takes only GPUs whose memory no other program uses.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from vrtspike.launching.gpu_locks import lock_folder, lock_gpu, lock_holder
from vrtspike.monitoring.nvml import Gpu, installed_gpus
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    import torch

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
FREE_FRACTION = 0.8
"""Share of free memory from which a GPU counts as free; a desktop uses some memory."""

DeviceName = Literal["auto", "cpu", "cuda"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)

GPU_TIMEOUT_S = 30.0
"""For a GPU that may be about to be free, while a person waits, who can choose the CPU."""
_POLL_S = (0.2, 0.8)
"""Bounds of the seconds between two attempts."""
_SILENT_S = 2.0
"""Seconds of waiting without a message."""
_GIB = 2**30


@dataclass(frozen=True)
class Devices:
    """The GPUs of a run; no GPU means the CPU.

    Attributes:
        names: values for ``CUDA_VISIBLE_DEVICES``.
        locks: descriptors of the open, locked files.
    """

    names: tuple[str, ...] = ()
    locks: tuple[int, ...] = field(default=(), repr=False)


def usable_gpus(min_count: int = 0) -> list[Gpu]:
    """Return the GPUs of this machine, or those that ``CUDA_VISIBLE_DEVICES`` selects.

    The variable holds indices of ``nvidia-smi``, UUIDs or prefixes of these, separated by commas.
    An invalid name ends the list, as in CUDA. Without the driver's library, as in some jobs of
    batch systems, the names are used as they are.

    Args:
        min_count: number of GPUs that are needed.

    Raises:
        RunError: if there are fewer.
    """
    installed = installed_gpus()
    visible = os.environ.get(VISIBLE_VARIABLE)
    gpus = installed if visible is None else _select_gpus(installed, visible)
    # A GPU may be selected twice, by two names.
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    if len(by_uuid) < min_count:
        raise RunError(
            f"{min_count} GPUs are asked for, but {len(by_uuid)} can be used on this machine; set "
            "GPUS (config/config.yaml) or --gpus to at most that, or to 0 for the CPU"
        )
    return list(by_uuid.values())


def _select_gpus(installed: Sequence[Gpu], visible: str) -> list[Gpu]:
    """Select GPUs by their indices, or prefixes of UUIDs, in ``CUDA_VISIBLE_DEVICES``."""
    selected: list[Gpu] = []
    for name in filter(None, map(str.strip, visible.split(","))):
        matches = [gpu for gpu in installed if str(gpu.index) == name or gpu.uuid.startswith(name)]
        if not installed and name != "-1":
            matches = [Gpu(name, is_mig_instance=name.startswith("MIG-"))]
        if not matches:
            break
        selected.append(matches[0])
    return selected


@contextlib.contextmanager
def acquire_gpus(
    requested: int | Literal["auto"],
    *,
    max_count: int | None = None,
    batches: int | None = None,
    show: Callable[[str], None] = print,
    timeout_s: float | None = None,
) -> Iterator[Devices]:
    """Lock free GPUs for the duration of the body, those with most free memory first.

    A GPU is free if no run of this project has locked it and 80 % of its memory is free; the memory
    is not checked if ``CUDA_VISIBLE_DEVICES`` is set.

    Args:
        requested: number of GPUs; ``auto``: all free ones, or the CPU on a machine without GPU; 0:
            the CPU. If a GPU is divided (MIG), ``auto`` takes one part, because parts cannot train
            together.
        max_count: upper limit for ``auto``; None if there is no limit.
        batches: micro-batches of a step; the number that ``auto`` takes must divide it.
        show: function called with a message before and after waiting.
        timeout_s: seconds to wait for GPUs in use; None waits until they are free.

    Raises:
        RunError: if there are too few GPUs, too few become free in time, or the file system does
            not support locks.
    """
    if requested == "auto":
        usable = usable_gpus()
        limit = 1 if usable and usable[0].is_mig_instance else len(usable)
        limit = min(limit, max_count or limit)
        counts = [n for n in range(1, limit + 1) if batches is None or batches % n == 0]
    else:
        usable = usable_gpus(requested) if requested else []
        counts = [requested]
    if not usable or not usable[0].total:  # assigned by a batch system, invisible to NVML
        used = usable[: max(counts, default=0)]
        yield Devices(tuple(gpu.uuid for gpu in used))
        return
    locks = _wait_for_gpus(usable, requested, counts, show, timeout_s)
    try:
        yield Devices(tuple(locks), tuple(locks.values()))
    finally:
        for descriptor in locks.values():
            os.close(descriptor)


def _wait_for_gpus(
    usable: Sequence[Gpu],
    requested: int | Literal["auto"],
    counts: Sequence[int],
    show: Callable[[str], None],
    timeout_s: float | None,
) -> dict[str, int]:
    """Lock free GPUs, and wait until enough are free.

    Args:
        usable: GPUs of the first attempt.
        requested: number of GPUs, as for :func:`acquire_gpus`.
        counts: allowed numbers of GPUs.
        show: function called with a message before and after waiting.
        timeout_s: seconds to wait; None waits until enough GPUs are free.

    Returns:
        descriptors of the lock files, by UUID.

    Raises:
        RunError: if too few become free in time.
    """
    begun = time.monotonic()
    announced = False
    while True:
        locks, obstacles = _lock_free_gpus(usable, max(counts))
        # GPUs beyond an allowed number are released.
        kept = max((count for count in counts if count <= len(locks)), default=0)
        for uuid in list(locks)[kept:]:
            os.close(locks.pop(uuid))
        if locks:
            break
        waited_s = time.monotonic() - begun
        missing = (
            f"too few of the {len(usable)} GPUs are free for {requested}: {'; '.join(obstacles)}"
        )
        if timeout_s is not None and waited_s >= timeout_s:
            raise RunError(f"{missing}. Wait for them, or use fewer GPUs or the CPU")
        if waited_s >= _SILENT_S and not announced:
            show(f"waiting: {missing}")
            announced = True
        # Waiting times are random, because two runs may each hold half of the GPUs that both need.
        time.sleep(random.uniform(*_POLL_S))
        usable = usable_gpus(0 if requested == "auto" else requested) or usable
    if announced:
        show(f"free now: {', '.join(locks)}")
    return locks


def _lock_free_gpus(usable: Sequence[Gpu], max_count: int) -> tuple[dict[str, int], list[str]]:
    """Lock free GPUs.

    Returns:
        descriptors of the lock files by UUID, and the reasons why other GPUs were not locked.
    """
    obstacles: list[str] = []
    locks: dict[str, int] = {}
    # Memory is compared in whole GiB, so that GPUs with similar free memory keep their order.
    for gpu in sorted(usable, key=lambda gpu: -(gpu.free // _GIB)):
        if len(locks) == max_count:
            break
        # A device in CUDA_VISIBLE_DEVICES is used even if others use it.
        if VISIBLE_VARIABLE not in os.environ and gpu.free < FREE_FRACTION * gpu.total:
            used = f"{(gpu.total - gpu.free) / _GIB:.1f} of {gpu.total / _GIB:.1f} GiB are in use"
            advice = f"use it nevertheless: {VISIBLE_VARIABLE}={gpu.uuid}"
            obstacles.append(f"GPU {gpu.index}: {used} ({advice})")
            continue
        path = lock_folder() / f"{gpu.uuid.replace('/', '-')}.gpu"
        descriptor = lock_gpu(path)
        if descriptor is None:
            obstacles.append(f"GPU {gpu.index} is held by {lock_holder(path)}")
        else:
            locks[gpu.uuid] = descriptor
    return locks, obstacles


@contextlib.contextmanager
def acquire_device(name: DeviceName, timeout_s: float | None = None) -> Iterator[torch.device]:
    """Lock one GPU for the duration of the body, or use the CPU.

    In the body, ``CUDA_VISIBLE_DEVICES`` names the locked GPU alone. CUDA reads it once, when the
    process first uses it. Therefore enter this once in a process, around all that uses CUDA.

    Args:
        name: ``auto`` is a GPU if this process may use one.
        timeout_s: seconds to wait for a free GPU; None waits until one is free.

    Raises:
        RunError: for ``cuda`` without a GPU, or if all GPUs stay in use.
    """
    usable = usable_gpus()
    if name == "cuda" and not usable:
        raise RunError("no GPU that this process may use; choose the device cpu or auto")
    import torch

    if name == "cpu" or not usable:
        yield torch.device("cpu")
        return
    show = partial(print, file=sys.stderr, flush=True)
    with acquire_gpus(1, show=show, timeout_s=timeout_s) as devices:
        former = os.environ.get(VISIBLE_VARIABLE)
        os.environ[VISIBLE_VARIABLE] = devices.names[0]
        try:
            yield torch.device("cuda")
        finally:
            del os.environ[VISIBLE_VARIABLE]
            if former is not None:
                os.environ[VISIBLE_VARIABLE] = former
