"""Messages on errors of Python and of libraries that the user can fix."""

from __future__ import annotations

import errno
import re
import resource

from vrtspike.system.errors import UserError, describe_full_disk, is_disk_full

_NOT_WRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
"""Errors of a path that this user cannot write, or that cannot exist."""

_NO_MEMORY = re.compile(
    "failed to map segment|[Cc]annot allocate memory|[Cc]annot apply additional"
)
"""Messages of the dynamic linker when there is too little memory for a library."""


def user_fault(error: Exception) -> str | None:
    """Return a message on an error that the user can fix; None on a fault of the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ImportError):
        return _import_fault(error)
    if isinstance(error, MemoryError):
        return memory_fault(error)
    if isinstance(error, OSError):
        return _file_fault(error)
    return None


def _import_fault(error: ImportError) -> str | None:
    """Return a message on a package that is missing or broken; None on our own modules."""
    if (error.name or "").startswith("vrtspike"):
        return None
    # Imported here, because reading the metadata of packages takes time; other endings do without.
    from vrtspike.system.packages import import_fault

    return memory_fault(error) or import_fault(error)


def _file_fault(error: OSError) -> str | None:
    """Return a message on a full disk or on a path that cannot be written; None on other errors."""
    if is_disk_full(error):
        reason = f"{describe_full_disk(error)}, or move RESULTS or RUNS"
    elif error.errno in _NOT_WRITABLE and error.filename:
        reason = f"{error.strerror}; fix it or its permissions, or give another place"
    else:
        return None
    # A copy has two names: its source, and the file that could not be written.
    path = error.filename2 or error.filename or "a file"
    return f"{path}: {reason}, and run again"


def memory_fault(error: MemoryError | ImportError) -> str | None:
    """Return a message if a limit of memory (``ulimit -v``) may have caused an error."""
    if isinstance(error, ImportError) and not _NO_MEMORY.search(str(error)):
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return (
        f"memory is limited to {limit / 2**20:.0f} MB (ulimit -v); raise it: ulimit -v unlimited "
        f"({error or 'MemoryError'})"
    )
