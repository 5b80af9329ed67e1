"""The user's environment that Snakemake needs: a user name, a home folder, writable folders."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def set_default_user() -> None:
    """Set USER and HOME for a user without an account (``docker run --user``)."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        name = f"uid{os.getuid()}"
        home = "/"
    else:
        name = user.pw_name
        home = user.pw_dir
    os.environ.setdefault("USER", name)
    os.environ.setdefault("HOME", home)


def expand_home(path: str) -> str:
    """Return a path with expanded ``~``.

    Raises:
        ValueError: if there is no such home folder.
    """
    expanded = os.path.expanduser(path)  # noqa: PTH111 - keeps ~ of unknown users
    if expanded.startswith("~"):
        raise ValueError(f"found {path}, but no such home folder; write the complete path")
    return expanded


def environment_faults() -> Iterator[str]:
    """Yield messages on folders that Snakemake needs and cannot write."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache"))
    remedies = {cache: "Snakemake's cache; set XDG_CACHE_HOME or HOME to a folder of yours"}
    if Path("config/config.yaml").is_file():
        state = Path.cwd() / ".snakemake"
        remedies[state] = "which Snakemake needs; fix permissions, or copy the project"
    user = f"user {os.environ.get('USER', os.getuid())}, HOME {os.environ.get('HOME')}"
    for folder, remedy in remedies.items():
        reason = write_fault(folder)
        if reason:
            yield f"{user}: {folder} cannot be written ({reason}), {remedy}"


def nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest parent folder that exists and is accessible."""
    path = path.absolute()
    return next(candidate for candidate in (path, *path.parents) if os.path.exists(candidate))  # noqa: PTH110


def free_bytes(path: Path) -> int:
    """Return the number of free bytes on the disk of a path, which need not exist."""
    return shutil.disk_usage(nearest_existing(path)).free


def write_fault(path: Path) -> str:
    """Describe why no file can be created in a folder or its nearest parent; empty if one can."""
    try:
        with tempfile.TemporaryFile(dir=nearest_existing(path)):
            return ""
    except OSError as error:
        return error.strerror or str(error)
