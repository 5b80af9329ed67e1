"""A lock file per GPU, by which the runs of a machine keep out of each other's way.

Who takes a device holds its file for itself for a moment, and then shares it with the processes
that compute there: the device is free when the last of them has ended, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from vrtspike.errors import RunError
from vrtspike.locks import holders, lock_file, require_lock_file
from vrtspike.monitoring.nvml import Gpu

FOLDER = "VRTSPIKE_GPU_LOCKS"
"""Environment variable: the folder of the lock files, the same for all runs of this machine."""

HELD = "VRTSPIKE_HELD_LOCKS"
"""Environment variable: the lock files of a run's devices, which its processes hold, too."""

_MEMORY = Path("/dev/shm")
"""Of this machine alone, for all its users, with locks; ``TMPDIR`` may differ between users."""
_ELSEWHERE = f"set {FOLDER} to a folder on another one, the same for all runs of this machine"
_SCOPE = (
    ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"),
    ("SLURMD_NODENAME", "HOSTNAME"),
)
"""Variables of batch systems that name a job, and its node."""


def lock_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the lock files of this machine stand."""
    if given := environment.get(FOLDER):
        return Path(given)
    return (_MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())) / "vrtspike-gpus"


def lock_path(gpu: Gpu, folder: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The lock file of a device.

    A number that only a batch system knows is another device in each of its jobs and nodes.
    """
    name = gpu.uuid.replace("/", "-")
    if not gpu.total and name.isdigit():
        where = [next((environment[n] for n in names if n in environment), "") for names in _SCOPE]
        name = "-".join([*where, name])
    return folder / f"{name}.lock"


@contextlib.contextmanager
def choosing(folder: Path) -> Iterator[str | None]:
    """Choose alone, so that no two runs hold half of what each needs; else who chooses now."""
    _make_shared(folder)
    path = folder / "choosing.lock"
    descriptor = _open_lock(path)
    try:
        alone = lock_file(descriptor, path, elsewhere=_ELSEWHERE)
        yield None if alone else describe_holder(path)
    finally:
        os.close(descriptor)


def claim(path: Path) -> int | None:
    """Take a device: its open, locked file, to be closed; None if another run has it."""
    descriptor = _open_lock(path)
    alone = lock_file(descriptor, path, elsewhere=_ELSEWHERE)
    # Between the two locks the kernel holds none: another run may come first.
    if alone and lock_file(descriptor, path, shared=True, elsewhere=_ELSEWHERE):
        return descriptor
    os.close(descriptor)
    return None


def held_locks(paths: Sequence[Path]) -> dict[str, str]:
    """Variables by which the processes of a run :func:`join_locks`."""
    return {HELD: os.pathsep.join(map(str, paths))} if paths else {}


def join_locks() -> list[int]:
    """Hold the locks of this run's devices until this process ends; returns their open files.

    Without it a device would seem free after the launcher was killed, while its processes save.

    Raises:
        RunError: if another run has taken one meanwhile.
    """
    found = []
    for path in filter(None, os.environ.get(HELD, "").split(os.pathsep)):
        descriptor = _open_lock(Path(path))
        found.append(descriptor)
        if not lock_file(descriptor, Path(path), shared=True, elsewhere=_ELSEWHERE):
            raise RunError(f"{path}: another run has taken this run's GPU; start it again")
    return found


def describe_holder(path: Path) -> str:
    """Who has a device, for a person: process, user and command."""
    for pid in holders(path):
        with contextlib.suppress(psutil.Error):
            return describe_process(pid)
    return "another run"


def describe_process(pid: int) -> str:
    """A process for a person.

    Raises:
        psutil.Error: if it has ended.
    """
    process = psutil.Process(pid)
    words = process.cmdline() or [process.name()]
    shown = " ".join([Path(words[0]).name, *words[1:]])
    return f"process {pid} of {process.username()}: {shown[:100]}"


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
