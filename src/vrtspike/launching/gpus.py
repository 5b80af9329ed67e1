"""GPUs for a run: which it may use, which are free, and taking them until the run ends.

A scheduler on one machine counts GPUs but hands out no device. So every run takes a lock file per
device, and leaves alone those whose memory others of the machine have taken.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from vrtspike.errors import RunError
from vrtspike.launching.gpu_locks import (
    choosing,
    claim,
    describe_holder,
    describe_process,
    lock_folder,
    lock_path,
)
from vrtspike.monitoring.nvml import Gpu, gpu_processes, installed_gpus

VISIBLE = "CUDA_VISIBLE_DEVICES"
FREE_SHARE = 0.8
"""Share of its memory that a GPU has left which nobody else computes on; a desktop takes some."""

_POLL_S = 0.5
_QUIET_S = 2.0
"""A run that is about to end, or to choose, is waited for without a word."""
_REMIND_S = 600.0
_GIB = 2**30


@dataclass(frozen=True)
class Devices:
    """The GPUs of a run; none means the CPU.

    Attributes:
        names: as ``CUDA_VISIBLE_DEVICES`` takes them.
        locks: open files that keep others away; child processes that inherit them do so too.
        paths: of these files.
    """

    names: tuple[str, ...] = ()
    locks: tuple[int, ...] = field(default=(), repr=False)
    paths: tuple[Path, ...] = field(default=(), repr=False)


def usable_gpus(installed: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, as CUDA reads it.

    Args:
        installed: the machine's GPUs; where there are none, the names are taken as they are.
        visible: the variable's value: indices as ``nvidia-smi`` counts, UUIDs or their beginnings,
            with commas; None where it is not set. What follows a name that is none is not seen.

    >>> three = [Gpu("GPU-a", 0), Gpu("GPU-b", 1), Gpu("GPU-c", 2)]
    >>> [gpu.uuid for gpu in usable_gpus(three, "2,0")], usable_gpus(three, "7,0")
    (['GPU-c', 'GPU-a'], [])
    """
    if visible is None:
        return list(installed)
    found: list[Gpu] = []
    for name in (word.strip() for word in visible.split(",")):
        gpu = _named(name, installed)
        if gpu is None:
            break
        if gpu not in found:
            found.append(gpu)
    return found


def _named(name: str, installed: Sequence[Gpu]) -> Gpu | None:
    """The device that a word of ``CUDA_VISIBLE_DEVICES`` means; None if it means none."""
    if name.isdigit():
        fitting = [gpu for gpu in installed if gpu.index == int(name)][:1]
    else:
        fitting = [gpu for gpu in installed if name and gpu.uuid.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    # A batch system's device, where the driver's library is missing; an instance by its old name.
    unknown = not installed and name and name != "-1"
    return Gpu(name) if unknown or name.startswith("MIG-GPU-") else None


def require_gpus(wanted: int | Literal["auto"], installed: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that this process may use, once it is sure that they are enough.

    Args:
        wanted: how many; ``auto`` is content with none.
        installed: the machine's GPUs.

    Raises:
        RunError: if there are fewer, or one run would need several parts of divided ones.
    """
    usable = usable_gpus(installed, os.environ.get(VISIBLE))
    whole = [gpu for gpu in usable if not _is_part(gpu)]
    if wanted == "auto":
        return whole or usable
    if wanted > len(usable):
        raise RunError(
            f"{wanted} GPUs are asked for, but {len(usable)} can be used on this machine; set GPUS "
            "(config/config.yaml) or --gpus to at most that, or to 0 for the CPU"
        )
    if wanted > max(1, len(whole)):
        raise RunError(
            f"{wanted} GPUs are asked for, but of the parts of a divided GPU (MIG) a run can use "
            "one only; set GPUS (config/config.yaml) or --gpus to 1"
        )
    return usable if wanted == 1 else whole


def _is_part(gpu: Gpu) -> bool:
    return gpu.is_part or gpu.uuid.startswith("MIG-")


@contextlib.contextmanager
def take_gpus(
    wanted: int | Literal["auto"],
    *,
    most: int | None = None,
    dividing: int | None = None,
    tell: Callable[[str], None] = print,
    look: Callable[[], Sequence[Gpu]] = installed_gpus,
    folder: Path | None = None,
    patience_s: float | None = None,
) -> Iterator[Devices]:
    """Take GPUs for the duration of the body; of those that are free, those with most memory.

    A GPU is free if no run of this project holds it and, unless ``CUDA_VISIBLE_DEVICES`` names it,
    others have left 80 % of its memory.

    Args:
        wanted: how many; ``auto`` takes all that are free, or the CPU where there is none at all;
            0 is the CPU.
        most: that ``auto`` takes; None for no limit.
        dividing: what ``auto`` takes divides this number: the batches that a run has to share.
        tell: is told what is waited for.
        look: lists the machine's GPUs.
        folder: where the lock files stand; the machine's own unless given.
        patience_s: seconds to wait for GPUs that are in use; None waits until they are free.

    Raises:
        RunError: if more GPUs are wanted than exist, too few become free in time, something else
            than a file stands where a lock belongs, or the file system has no locks.
    """
    usable = [] if wanted == 0 else require_gpus(wanted, look())
    if not usable:
        yield Devices()
        return
    least, most = _number(wanted, most, usable)
    dividing = dividing if wanted == "auto" else None
    folder = folder or lock_folder()
    begun = time.monotonic()
    told: float | None = None
    while True:
        devices, blocked = _choose(usable, least, most, dividing, folder)
        if devices is not None:
            try:
                if told is not None:
                    tell(f"free now: {', '.join(devices.names)}")
                yield devices
            finally:
                _close(devices.locks)
            return
        now = time.monotonic()
        missing = f"too few of the {len(usable)} GPUs are free for {wanted}: {'; '.join(blocked)}"
        if patience_s is not None and now - begun >= patience_s:
            raise RunError(f"{missing}. Wait for them, ask for fewer, or compute on the CPU")
        if now >= begun + _QUIET_S if told is None else now >= told + _REMIND_S:
            tell(f"waiting: {missing}")
            told = now
        time.sleep(_POLL_S)
        usable = require_gpus(wanted, look()) or usable


def _number(
    wanted: int | Literal["auto"], most: int | None, usable: Sequence[Gpu]
) -> tuple[int, int]:
    """How many GPUs a run takes at least and at most."""
    if wanted != "auto":
        return wanted, wanted
    whole = sum(not _is_part(gpu) for gpu in usable)
    return 1, max(1, min(most or whole, whole))


def _choose(
    usable: Sequence[Gpu], least: int, most: int, dividing: int | None, folder: Path
) -> tuple[Devices | None, list[str]]:
    """Lock the best of the free devices; None, and what is in the way, if they are too few."""
    blocked: list[str] = []
    taken: list[tuple[str, int, Path]] = []
    with choosing(folder) as other:
        if other is not None:
            return None, [f"{other} is choosing"]
        # In steps of a GiB: what differs by less is taken in the given order.
        for gpu in sorted(usable, key=lambda gpu: -(gpu.free // _GIB)):
            if len(taken) == most:
                break
            path = lock_path(gpu, folder)
            if _is_used(gpu):
                blocked.append(_used_by(gpu))
                continue
            descriptor = claim(path)
            if descriptor is None:
                blocked.append(f"{_title(gpu)} is held by {describe_holder(path)}")
            else:
                taken.append((gpu.uuid, descriptor, path))
    number = _even(len(taken), dividing) if len(taken) >= least else 0
    _close(descriptor for _, descriptor, _ in taken[number:])
    if number == 0:
        return None, blocked
    names, locks, paths = zip(*taken[:number], strict=True)
    return Devices(names, locks, paths), blocked


def _even(number: int, dividing: int | None) -> int:
    """The most devices, up to a number, that can share something evenly."""
    if dividing is None:
        return number
    return max(n for n in range(1, number + 1) if dividing % n == 0)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _is_used(gpu: Gpu) -> bool:
    """Whether others have taken its memory; who names a device means it, whatever is there."""
    return VISIBLE not in os.environ and gpu.free < FREE_SHARE * gpu.total


def _used_by(gpu: Gpu) -> str:
    """What is in the way on a device, and how to take it all the same."""
    found = []
    for uuid, pid, _ in gpu_processes():
        with contextlib.suppress(psutil.Error):
            if uuid == gpu.uuid:
                found.append(describe_process(pid))
    used = f"{(gpu.total - gpu.free) / _GIB:.1f} of {gpu.total / _GIB:.1f} GiB are in use"
    users = f" by {', '.join(found)}" if found else ""
    return f"{_title(gpu)}: {used}{users} ({VISIBLE}={gpu.uuid} takes it all the same)"


def _title(gpu: Gpu) -> str:
    return f"GPU {gpu.index}" if gpu.total else f"GPU {gpu.uuid}"
