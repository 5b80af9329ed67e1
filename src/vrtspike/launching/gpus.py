"""GPUs for a run: which exist, which are free, and taking them until the run ends.

A scheduler on one machine counts GPUs but hands out no device. So every run takes a lock file per
device; the kernel frees it when the last process that holds it has ended.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pynvml

from vrtspike.errors import RunError
from vrtspike.locks import lock_file, require_lock_file

PATIENCE_S = 30.0
_POLL_S = 0.5
_ELSEWHERE = "set TMPDIR to a folder on another one, the same for all runs of this machine"
_BATCH_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "KUBERNETES_SERVICE_HOST")


@dataclass(frozen=True)
class Devices:
    """The GPUs of a run; none means the CPU.

    Attributes:
        names: as ``CUDA_VISIBLE_DEVICES`` takes them.
        locks: open files that keep others away; child processes that inherit them do so too.
    """

    names: tuple[str, ...] = ()
    locks: tuple[int, ...] = field(default=(), repr=False)


def installed_gpus() -> list[str]:
    """UUIDs of the machine's NVIDIA GPUs; empty where there is no driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def usable_gpus(installed: list[str], visible: str | None) -> list[str]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` leaves.

    Args:
        installed: UUIDs of the machine's GPUs.
        visible: the variable's value: indices or UUIDs with commas, or None where it is not set.

    >>> usable_gpus(["GPU-a", "GPU-b", "GPU-c"], "2,0")
    ['GPU-c', 'GPU-a']
    """
    if visible is None:
        return installed
    names = [name.strip() for name in visible.split(",") if name.strip()]
    by_index = {str(index): uuid for index, uuid in enumerate(installed)}
    return [by_index.get(name, name) for name in names]


def require_gpus(wanted: int | Literal["auto"], installed: list[str]) -> list[str]:
    """The GPUs that this process may use, once it is sure that they are enough.

    Args:
        wanted: how many; ``auto`` is content with none.
        installed: UUIDs of the machine's GPUs.

    Raises:
        RunError: if there are fewer.
    """
    usable = usable_gpus(installed, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if wanted != "auto" and wanted > len(usable):
        raise RunError(
            f"{wanted} GPUs are asked for, but {len(usable)} can be used on this machine; set GPUS "
            "(config/config.yaml) or --gpus to at most that, or to 0 for the CPU"
        )
    return usable


@contextlib.contextmanager
def take_gpus(
    wanted: int | Literal["auto"],
    *,
    installed: list[str] | None = None,
    lock_folder: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[Devices]:
    """Take GPUs for the duration of the body.

    Within a batch job the devices are passed through as the batch system set them; otherwise each
    is locked against other runs on this machine.

    Args:
        wanted: how many; ``auto`` takes all that are free, or the CPU where there is none at all;
            0 is the CPU.
        installed: UUIDs of the machine's GPUs; found by itself unless given.
        lock_folder: where the lock files stand; a folder for temporary files unless given.
        patience_s: seconds to wait for a run that may be about to end.

    Raises:
        RunError: if more GPUs are wanted than exist, too few are free, something else than a file
            stands where a lock belongs, or the file system has no locks.
    """
    if wanted == 0:
        yield Devices()
        return
    usable = require_gpus(wanted, installed_gpus() if installed is None else installed)
    if wanted == "auto" and not usable:
        yield Devices()
        return
    if any(name in os.environ for name in _BATCH_JOBS):
        yield Devices(tuple(usable if wanted == "auto" else usable[:wanted]))
        return
    folder = lock_folder or Path(tempfile.gettempdir()) / "vrtspike-gpus"
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.ExitStack() as held:
            devices = _lock_free_ones(usable, wanted, folder, held)
            if devices is not None:
                yield devices
                return
        if time.monotonic() >= deadline:
            raise RunError(
                f"too few of the {len(usable)} GPUs are free for {wanted}: other runs of this "
                f"project hold them (lock files in {folder}); wait for them or ask for fewer"
            )
        time.sleep(_POLL_S)


def _lock_free_ones(
    usable: list[str], wanted: int | Literal["auto"], folder: Path, held: contextlib.ExitStack
) -> Devices | None:
    """Lock as many of the free devices as are wanted; None if there are too few."""
    _make_shared(folder)
    names: list[str] = []
    locks: list[int] = []
    for name in usable:
        if wanted != "auto" and len(names) == wanted:
            break
        path = folder / f"{name}.lock"
        descriptor = _open_lock(path)
        held.callback(os.close, descriptor)
        if lock_file(descriptor, path, elsewhere=_ELSEWHERE):
            names.append(name)
            locks.append(descriptor)
    enough = len(names) == wanted if wanted != "auto" else bool(names)
    return Devices(tuple(names), tuple(locks)) if enough else None


def _make_shared(folder: Path) -> None:
    """A folder in which all users of the machine make files, as in the one for temporary files."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # It belongs to another user who made it at the same moment.
        with contextlib.suppress(PermissionError):
            folder.chmod(0o1777)


def _open_lock(path: Path) -> int:
    """Open a lock file, which another user may have made: to read, which is enough for a lock."""
    require_lock_file(path)
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            # Another user may make it at the same moment; then it is opened like any other.
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(descriptor, 0o644)
                return descriptor
