"""GPUs for a run or for inference: which it may use, which are free, and taking them until it ends.

A scheduler on one machine counts GPUs but hands out no device. So every run takes a lock file per
device, and leaves alone those whose memory others of the machine have taken.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import psutil

from vrtspike.errors import RunError
from vrtspike.io.locks import lock_file, lock_holders
from vrtspike.monitoring.nvml import Gpu, gpu_processes, installed_gpus

FOLDER = "VRTSPIKE_GPU_LOCKS"
"""Environment variable: the folder of the lock files, the same for all runs of this machine."""

_MEMORY = Path("/dev/shm")
"""Of this machine alone, for all its users, with locks; ``TMPDIR`` may differ between users."""
_ADVICE = f"set {FOLDER} to a folder on another one, the same for all runs of this machine"


def lock_folder() -> Path:
    """Where the lock files of this machine stand."""
    if given := os.environ.get(FOLDER):
        return Path(given)
    return (_MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())) / "vrtspike-gpus"


def lock_path(gpu: Gpu, folder: Path) -> Path:
    """The lock file of a device."""
    return folder / f"{gpu.uuid.replace('/', '-')}.lock"


@contextlib.contextmanager
def selection_lock(folder: Path) -> Iterator[str | None]:
    """Choose alone, so that no two runs hold half of what each needs; else who chooses now."""
    _make_shared(folder)
    path = folder / "choosing.lock"
    descriptor = lock_gpu(path)
    try:
        yield describe_holder(path) if descriptor is None else None
    finally:
        _close(() if descriptor is None else (descriptor,))


def lock_gpu(path: Path) -> int | None:
    """Take a device: its open, locked file, to be closed; None if another run has it."""
    descriptor = _open_lock(path)
    if lock_file(descriptor, path, advice=_ADVICE):
        return descriptor
    os.close(descriptor)
    return None


def describe_holder(path: Path) -> str:
    """Who has a device, for a person: process, user and command."""
    return ", ".join(_processes(lock_holders(path))) or "another run"


def _processes(pids: Iterable[int]) -> Iterator[str]:
    """The processes that have not ended, for a person."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            words = process.cmdline() or [process.name()]
            shown = " ".join([Path(words[0]).name, *words[1:]])
            yield f"process {pid} of {process.username()}: {shown[:100]}"


def _make_shared(folder: Path) -> None:
    """A folder in which all users of the machine make files, as in the one for temporary files."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # It belongs to another user who made it at the same moment.
        with contextlib.suppress(PermissionError):
            folder.chmod(0o1777)


def _open_lock(path: Path) -> int:
    """Open a lock file, which another user may have made: to read, which is enough for a lock."""
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            # Another user may make it at the same moment.
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(descriptor, 0o644)
                return descriptor


if TYPE_CHECKING:
    import torch


VISIBLE = "CUDA_VISIBLE_DEVICES"
FREE_FRACTION = 0.8
"""Of its memory, left on a GPU that nobody else computes on; a desktop takes some."""

_POLL_S = 0.5
_SILENT_S = 2.0
"""A run that is about to end, or to choose, is waited for without a word."""
_GIB = 2**30


@dataclass(frozen=True)
class Devices:
    """The GPUs of a run; none means the CPU.

    Attributes:
        names: as ``CUDA_VISIBLE_DEVICES`` takes them.
        locks: open files that keep others away.
    """

    names: tuple[str, ...] = ()
    locks: tuple[int, ...] = field(default=(), repr=False)


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
        gpu = _find_gpu(name, installed)
        if gpu is None:
            break
        if gpu not in found:
            found.append(gpu)
    return found


def _find_gpu(name: str, installed: Sequence[Gpu]) -> Gpu | None:
    """The device that a word of ``CUDA_VISIBLE_DEVICES`` means; None if it means none."""
    if name.isdigit():
        fitting = [gpu for gpu in installed if gpu.index == int(name)][:1]
    else:
        fitting = [gpu for gpu in installed if name and gpu.uuid.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    # A batch system's device, where the driver's library is missing.
    unknown = not installed and name and name != "-1"
    return Gpu(name, is_part=name.startswith("MIG-")) if unknown else None


def require_gpus(wanted: int | Literal["auto"], installed: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that this process may use, once it is sure that they are enough.

    Args:
        wanted: how many; ``auto`` is content with none.
        installed: the machine's GPUs.

    Raises:
        RunError: if there are fewer, or one run would need several parts of divided ones.
    """
    usable = usable_gpus(installed, os.environ.get(VISIBLE))
    whole = [gpu for gpu in usable if not gpu.is_part]
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


@contextlib.contextmanager
def take_gpus(
    wanted: int | Literal["auto"],
    *,
    most: int | None = None,
    batches: int | None = None,
    show: Callable[[str], None] = print,
    list_gpus: Callable[[], Sequence[Gpu]] = installed_gpus,
    folder: Path | None = None,
    timeout_s: float | None = None,
) -> Iterator[Devices]:
    """Take GPUs for the duration of the body; of those that are free, those with most memory.

    A GPU is free if no run of this project holds it and, unless ``CUDA_VISIBLE_DEVICES`` names it,
    others have left 80 % of its memory.

    Args:
        wanted: how many; ``auto`` takes all that are free, or the CPU where there is none at all;
            0 is the CPU.
        most: that ``auto`` takes; None for no limit.
        batches: what ``auto`` takes divides this number: the batches that a run has to share.
        show: is called with what is waited for.
        list_gpus: lists the machine's GPUs.
        folder: where the lock files stand; the machine's own unless given.
        timeout_s: seconds to wait for GPUs that are in use; None waits until they are free.

    Raises:
        RunError: if more GPUs are wanted than exist, too few become free in time, or the
            file system has no locks.
    """
    usable = [] if wanted == 0 else require_gpus(wanted, list_gpus())
    if not usable:
        yield Devices()
        return
    least, most = _gpu_range(wanted, most, usable)
    if not usable[0].total:  # only a batch system knows them, and has handed them out
        yield Devices(tuple(gpu.uuid for gpu in usable[:most]))
        return
    batches = batches if wanted == "auto" else None
    folder = folder or lock_folder()
    begun = time.monotonic()
    announced = False
    while True:
        devices, blocked = _lock_free_gpus(usable, least, most, batches, folder)
        if devices is not None:
            try:
                if announced:
                    show(f"free now: {', '.join(devices.names)}")
                yield devices
            finally:
                _close(devices.locks)
            return
        waited_s = time.monotonic() - begun
        missing = f"too few of the {len(usable)} GPUs are free for {wanted}: {'; '.join(blocked)}"
        if timeout_s is not None and waited_s >= timeout_s:
            raise RunError(f"{missing}. Wait for them, ask for fewer, or compute on the CPU")
        if waited_s >= _SILENT_S and not announced:
            show(f"waiting: {missing}")
            announced = True
        time.sleep(_POLL_S)
        usable = require_gpus(wanted, list_gpus()) or usable


def _gpu_range(
    wanted: int | Literal["auto"], most: int | None, usable: Sequence[Gpu]
) -> tuple[int, int]:
    """How many GPUs a run takes at least and at most."""
    if wanted != "auto":
        return wanted, wanted
    whole = sum(not gpu.is_part for gpu in usable)
    return 1, max(1, min(most or whole, whole))


def _lock_free_gpus(
    usable: Sequence[Gpu], least: int, most: int, batches: int | None, folder: Path
) -> tuple[Devices | None, list[str]]:
    """Lock the best of the free devices; None, and what is in the way, if they are too few."""
    blocked: list[str] = []
    taken: list[tuple[str, int]] = []
    with selection_lock(folder) as other:
        if other is not None:
            return None, [f"{other} is choosing"]
        # In steps of a GiB: what differs by less is taken in the given order.
        for gpu in sorted(usable, key=lambda gpu: -(gpu.free // _GIB)):
            if len(taken) == most:
                break
            path = lock_path(gpu, folder)
            # Who names a device means it, whatever is there.
            if VISIBLE not in os.environ and gpu.free < FREE_FRACTION * gpu.total:
                blocked.append(_describe_use(gpu))
            elif (descriptor := lock_gpu(path)) is None:
                blocked.append(f"GPU {gpu.index} is held by {describe_holder(path)}")
            else:
                taken.append((gpu.uuid, descriptor))
    number = _largest_divisor(len(taken), batches) if len(taken) >= least else 0
    _close(descriptor for _, descriptor in taken[number:])
    if number == 0:
        return None, blocked
    names, locks = zip(*taken[:number], strict=True)
    return Devices(names, locks), blocked


def _largest_divisor(number: int, batches: int | None) -> int:
    """The most devices, up to a number, that can share something evenly."""
    if batches is None:
        return number
    return max(n for n in range(1, number + 1) if batches % n == 0)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _describe_use(gpu: Gpu) -> str:
    """What is in the way on a device, and how to take it all the same."""
    found = ", ".join(_processes(pid for uuid, pid, _ in gpu_processes() if uuid == gpu.uuid))
    used = f"{(gpu.total - gpu.free) / _GIB:.1f} of {gpu.total / _GIB:.1f} GiB are in use"
    users = f" by {found}" if found else ""
    return f"GPU {gpu.index}: {used}{users} ({VISIBLE}={gpu.uuid} takes it all the same)"


DeviceName = Literal["auto", "cpu", "cuda"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)


def device_type(name: DeviceName) -> Literal["cpu", "cuda"]:
    """What a device is: ``auto`` is a GPU where this process may use one.

    Raises:
        RunError: if ``cuda`` is asked for where there is none.
    """
    usable = require_gpus("auto", installed_gpus())
    if name == "cuda" and not usable:
        raise RunError("no GPU that this process may use; choose the device cpu or auto")
    return "cpu" if name == "cpu" or not usable else "cuda"


@contextlib.contextmanager
def take_device(name: DeviceName, timeout_s: float | None = None) -> Iterator[torch.device]:
    """Take one GPU, as training does, for the duration of the body; or the CPU.

    Call it before anything has used CUDA in this process.

    Args:
        name: ``auto`` takes a GPU where the machine has one.
        timeout_s: seconds to wait for a GPU where all are in use; None waits until one is free.

    Raises:
        RunError: if ``cuda`` is asked for where there is none, or all GPUs stay in use.
    """
    kind = device_type(name)
    import torch

    if kind == "cpu":
        yield torch.device("cpu")
        return
    show = partial(print, file=sys.stderr, flush=True)
    with take_gpus(1, show=show, timeout_s=timeout_s) as devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.names[0]
        yield torch.device("cuda")
