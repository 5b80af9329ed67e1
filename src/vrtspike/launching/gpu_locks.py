"""Lock files of GPUs: one for each GPU, in a folder that all users of the machine share."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from vrtspike.io.locks import describe_process, lock_file
from vrtspike.system.errors import RunError

FOLDER_VARIABLE = "VRTSPIKE_GPU_LOCKS"
"""Environment variable: folder of the lock files, the same for all runs of this machine."""

_DEFAULT_FOLDER = "/dev/shm/vrtspike-gpus"
"""Folder by default: unlike ``TMPDIR``, it is on the machine, shared by users, and supports
locks."""
_OTHER_FILE_SYSTEM = (
    f"set {FOLDER_VARIABLE} to a folder on another one, the same for all runs of this machine"
)
_OTHER_FOLDER = f"set {FOLDER_VARIABLE} to another folder, the same for all runs of this machine"
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for opening files: follow no link, do not block on a pipe."""
_BEGINNINGS = (b"process ", b"Slurm job ")
"""Prefixes of the text in a lock file (:func:`vrtspike.io.locks.describe_process`)."""
_MAX_BYTES = 4096
"""Maximum size of a lock file in bytes."""
_OTHER_RUN = "another run"


def lock_folder() -> Path:
    """Return the folder of this machine's lock files."""
    return Path(os.environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER)


def lock_gpu(path: Path) -> int | None:
    """Lock a GPU.

    All users can create files in the folder, as in ``/tmp``, and lock the files of others. A file
    names the process that has locked it. Because other users may have put anything there, no link
    is followed, and nothing is written into a file that is not a lock file.

    Args:
        path: the lock file of the GPU.

    Returns:
        descriptor of the open lock file; None if another run has locked the GPU.

    Raises:
        RunError: if the folder holds other files, the file is not a lock file, or the file system
            has no locks.
    """
    folder = _open_folder(path.parent)
    try:
        descriptor = _open_lock(folder, path)
    finally:
        os.close(folder)
    try:
        _require_lock_file(descriptor, path)
        is_locked = lock_file(descriptor, path, advice=_OTHER_FILE_SYSTEM)
        if is_locked:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, describe_process().encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    if is_locked:
        return descriptor
    os.close(descriptor)
    return None


def lock_holder(path: Path) -> str:
    """Read the process that has locked a GPU from its lock file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK), encoding="utf-8") as stream:
            return stream.read(_MAX_BYTES).strip() or _OTHER_RUN
    except (OSError, ValueError):
        return _OTHER_RUN


def _open_folder(folder: Path) -> int:
    """Open the folder of lock files; create it for all users if it is missing.

    Raises:
        RunError: if it is a link, not a folder, or a folder in which another user may replace the
            files of others.
    """
    # Another user may create the file at the same moment.
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
    """Open a lock file in an open folder; create it for all users if it is missing.

    Raises:
        RunError: if it is a link.
    """
    flags = os.O_RDWR | _NO_LINK
    # An existing file is opened without O_CREAT, which Linux rejects for files of other users in a
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
    """Reject a file that is not a lock, so that nothing is overwritten.

    Raises:
        RunError: if it is not a regular file, has other names, or holds another text.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _not_a_lock(path, "no regular file")
    if status.st_nlink != 1:
        raise _not_a_lock(path, f"the file has {status.st_nlink} names (hard links)")
    text = os.pread(descriptor, _MAX_BYTES, 0)
    has_other_text = text != b"" and not text.startswith(_BEGINNINGS)
    if status.st_size > _MAX_BYTES or has_other_text:
        raise _not_a_lock(path, "another text than that of a lock")


def _not_a_lock(path: Path, fault: str) -> RunError:
    return RunError(f"{path}: no lock file of a GPU ({fault}); remove it, or {_OTHER_FOLDER}")
