"""Selection of free GPUs for a run or for inference, with a lock file for each GPU.

Snakemake on one machine counts GPUs but assigns no devices. So every run locks its GPUs, and does
not take those whose memory other programs use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from vrtspike.io.locks import describe_process, lock_file
from vrtspike.monitoring.nvml import Gpu, installed_gpus
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    import torch

FOLDER = "VRTSPIKE_GPU_LOCKS"
"""Environment variable: folder of the lock files, the same for all runs of this machine."""

_MEMORY = "/dev/shm/vrtspike-gpus"
"""Local to the machine and shared by its users, unlike ``TMPDIR``; supports locks."""
_ADVICE = f"set {FOLDER} to a folder on another one, the same for all runs of this machine"
_OTHER_FOLDER = f"set {FOLDER} to another folder, the same for all runs of this machine"
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags of opening: no link is followed, and a pipe does not block."""
_BEGINNINGS = (b"process ", b"Slurm job ")
"""Beginnings of the text in a lock file (:func:`vrtspike.io.locks.describe_process`)."""
_MAX_BYTES = 4096
"""Largest size of a lock file."""
_OTHER_RUN = "another run"

VISIBLE = "CUDA_VISIBLE_DEVICES"
FREE_FRACTION = 0.8
"""A GPU counts as free if this share of its memory is free; a desktop takes some."""

_POLL_S = (0.2, 0.8)
"""Bounds of the seconds between two attempts."""
_SILENT_S = 2.0
"""Seconds of waiting without a message."""
_GIB = 2**30


@dataclass(frozen=True)
class Devices:
    """The GPUs of a run; none means the CPU.

    Attributes:
        names: values for ``CUDA_VISIBLE_DEVICES``.
        locks: open, locked files.
    """

    names: tuple[str, ...] = ()
    locks: tuple[int, ...] = field(default=(), repr=False)


def lock_folder() -> Path:
    """Folder of this machine's lock files."""
    return Path(os.environ.get(FOLDER) or _MEMORY)


def lock_gpu(path: Path) -> int | None:
    """Lock a GPU; returns the open lock file, or None if another run has locked it.

    All users can create files in the folder, as in ``/tmp``, and lock the files of others. A file
    names the process that has locked it. Because other users may have put anything there, no link
    is followed, and nothing is written into a file that is not a lock file.

    Raises:
        RunError: if the folder or the file is not one of lock files, or the file system has no
            locks.
    """
    folder = _open_folder(path.parent)
    try:
        descriptor = _open_lock(folder, path)
    finally:
        os.close(folder)
    try:
        _require_lock_file(descriptor, path)
        locked = lock_file(descriptor, path, advice=_ADVICE)
        if locked:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, describe_process().encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    if locked:
        return descriptor
    os.close(descriptor)
    return None


def lock_holder(path: Path) -> str:
    """The process that has locked a GPU, as its lock file tells."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK), encoding="utf-8") as stream:
            return stream.read(_MAX_BYTES).strip() or _OTHER_RUN
    except (OSError, ValueError):
        return _OTHER_RUN


def _open_folder(folder: Path) -> int:
    """Open the folder of lock files, which is created for all users.

    Raises:
        RunError: if it is a link, no folder, or a folder in which another user may replace the
            files of others.
    """
    # Another user may create it at the same moment.
    with contextlib.suppress(FileExistsError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        folder.chmod(0o1777)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        kind = "link" if folder.is_symlink() else "file"
        raise RunError(
            f"{folder}: found a {kind}, expected the folder of GPU locks; {_OTHER_FOLDER}"
        ) from error
    status = os.fstat(descriptor)
    if status.st_uid not in (os.getuid(), 0) and not status.st_mode & stat.S_ISVTX:
        os.close(descriptor)
        raise RunError(
            f"{folder}: belongs to another user (ID {status.st_uid}), mode "
            f"{stat.S_IMODE(status.st_mode):o}, expected a folder of GPU locks for all users (mode "
            f"1777); {_OTHER_FOLDER}"
        )
    return descriptor


def _open_lock(folder: int, path: Path) -> int:
    """Open a lock file in an open folder, or create it for all users.

    Raises:
        RunError: if it is a link.
    """
    flags = os.O_RDWR | _NO_LINK
    # A file that exists is opened without O_CREAT, which Linux refuses for files of others in a
    # folder with mode 1777 (fs.protected_regular).
    while True:
        with contextlib.suppress(FileExistsError):
            try:
                return os.open(path.name, flags, dir_fd=folder)
            except FileNotFoundError:
                descriptor = os.open(
                    path.name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder
                )
                os.fchmod(descriptor, 0o666)
                return descriptor
            except OSError as error:
                raise _not_a_lock(path, error.strerror or str(error)) from error


def _require_lock_file(descriptor: int, path: Path) -> None:
    """Refuse a file in which something else would be overwritten.

    Raises:
        RunError: if it is no regular file, has other names, or holds another text.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _not_a_lock(path, "no regular file")
    if status.st_nlink != 1:
        raise _not_a_lock(path, f"the file has {status.st_nlink} names (hard links)")
    text = os.pread(descriptor, _MAX_BYTES, 0)
    if status.st_size > _MAX_BYTES or (text and not text.startswith(_BEGINNINGS)):
        raise _not_a_lock(path, "another text than that of a lock")


def _not_a_lock(path: Path, fault: str) -> RunError:
    return RunError(f"{path}: no lock file of a GPU ({fault}); remove it, or {_OTHER_FOLDER}")


def usable_gpus(least: int = 0) -> list[Gpu]:
    """The GPUs of this machine, or those that ``CUDA_VISIBLE_DEVICES`` selects.

    The variable has indices of ``nvidia-smi``, UUIDs or their beginnings, with commas. As in CUDA,
    an invalid name ends the list. Without the driver's library, as in some jobs of batch systems,
    the names are used as they are.

    Args:
        least: number of GPUs that are needed.

    Raises:
        RunError: if there are fewer.
    """
    installed, visible = installed_gpus(), os.environ.get(VISIBLE)
    found = {gpu.uuid: gpu for gpu in installed} if visible is None else {}
    for name in filter(None, map(str.strip, (visible or "").split(","))):
        fitting = [g for g in installed if str(g.index) == name or g.uuid.startswith(name)]
        if not installed and name != "-1":
            fitting = [Gpu(name, is_part=name.startswith("MIG-"))]
        if not fitting:
            break
        found[fitting[0].uuid] = fitting[0]
    if len(found) < least:
        raise RunError(
            f"{least} GPUs are asked for, but {len(found)} can be used on this machine; set GPUS "
            "(config/config.yaml) or --gpus to at most that, or to 0 for the CPU"
        )
    return list(found.values())


@contextlib.contextmanager
def take_gpus(
    wanted: int | Literal["auto"],
    *,
    most: int | None = None,
    batches: int | None = None,
    show: Callable[[str], None] = print,
    timeout_s: float | None = None,
) -> Iterator[Devices]:
    """Lock free GPUs for the duration of the body, those with most free memory first.

    A GPU is free if no run of this project has locked it and 80 % of its memory is free; the memory
    is not checked if ``CUDA_VISIBLE_DEVICES`` is set.

    Args:
        wanted: number of GPUs; ``auto``: all free ones, or the CPU on a machine without GPU; 0: the
            CPU. Of a divided GPU (MIG) it takes one part, because parts cannot work together.
        most: upper limit for ``auto``; None for none.
        batches: micro-batches of a step; the number that ``auto`` takes must divide it.
        show: called with a message before and after waiting.
        timeout_s: seconds to wait for GPUs in use; None waits until they are free.

    Raises:
        RunError: if there are too few GPUs, too few become free in time, or the file system does
            not support locks.
    """
    least = 0 if wanted == "auto" else wanted
    usable = [] if wanted == 0 else usable_gpus(least)
    numbers = [least]
    if wanted == "auto":
        limit = 1 if usable and usable[0].is_part else len(usable)
        known = range(1, min(most or limit, limit) + 1)
        numbers = [n for n in known if batches is None or batches % n == 0]
    if not usable or not usable[0].total:  # assigned by a batch system, invisible to NVML
        yield Devices(tuple(gpu.uuid for gpu in usable[: max(numbers, default=0)]))
        return
    begun = time.monotonic()
    announced = False
    while True:
        locks, blocked = _lock_free_gpus(usable, max(numbers))
        for name in list(locks)[max((n for n in numbers if n <= len(locks)), default=0) :]:
            os.close(locks.pop(name))
        if locks:
            break
        waited_s = time.monotonic() - begun
        missing = f"too few of the {len(usable)} GPUs are free for {wanted}: {'; '.join(blocked)}"
        if timeout_s is not None and waited_s >= timeout_s:
            raise RunError(f"{missing}. Wait for them, or use fewer GPUs or the CPU")
        if waited_s >= _SILENT_S and not announced:
            show(f"waiting: {missing}")
            announced = True
        # At random, because two runs may each hold half of what both need.
        time.sleep(random.uniform(*_POLL_S))
        usable = usable_gpus(least) or usable
    try:
        if announced:
            show(f"free now: {', '.join(locks)}")
        yield Devices(tuple(locks), tuple(locks.values()))
    finally:
        for descriptor in locks.values():
            os.close(descriptor)


def _lock_free_gpus(usable: Sequence[Gpu], most: int) -> tuple[dict[str, int], list[str]]:
    """Lock free GPUs; returns the open lock files by UUID, and why others were not locked."""
    blocked: list[str] = []
    locks: dict[str, int] = {}
    # In whole GiB, so that GPUs with similar free memory keep their order.
    for gpu in sorted(usable, key=lambda gpu: -(gpu.free // _GIB)):
        if len(locks) == most:
            break
        path = lock_folder() / f"{gpu.uuid.replace('/', '-')}.gpu"
        # A device in CUDA_VISIBLE_DEVICES is used even if others use it.
        if VISIBLE not in os.environ and gpu.free < FREE_FRACTION * gpu.total:
            used = f"{(gpu.total - gpu.free) / _GIB:.1f} of {gpu.total / _GIB:.1f} GiB are in use"
            advice = f"use it nevertheless: {VISIBLE}={gpu.uuid}"
            blocked.append(f"GPU {gpu.index}: {used} ({advice})")
        elif (descriptor := lock_gpu(path)) is None:
            blocked.append(f"GPU {gpu.index} is held by {lock_holder(path)}")
        else:
            locks[gpu.uuid] = descriptor
    return locks, blocked


DeviceName = Literal["auto", "cpu", "cuda"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)


@contextlib.contextmanager
def take_device(name: DeviceName, timeout_s: float | None = None) -> Iterator[torch.device]:
    """Lock one GPU for the duration of the body, or use the CPU.

    Call it before this process has used CUDA.

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
    with take_gpus(1, show=show, timeout_s=timeout_s) as devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.names[0]
        yield torch.device("cuda")
