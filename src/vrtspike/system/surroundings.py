"""What Snakemake needs around it: a user, a home with room for its cache, a folder to write to."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path


def set_default_user() -> None:
    """Give a user without an entry (``docker run --user``) a name and a home, for what asks."""
    try:
        user = pwd.getpwuid(os.getuid())
        name, home = user.pw_name, user.pw_dir
    except KeyError:
        name, home = f"uid{os.getuid()}", "/"
    os.environ.setdefault("USER", name)
    os.environ.setdefault("HOME", home)


def expand_home(path: str) -> str:
    """A path with the home folder in the place of its ``~``, as a shell gives it to a program.

    Raises:
        ValueError: if there is no such home folder.
    """
    found = os.path.expanduser(path)  # noqa: PTH111 - leaves what it does not know
    if found.startswith("~"):
        raise ValueError(f"found {path}, and no home folder for it; write the whole path")
    return found


def environment_faults() -> Iterator[str]:
    """What Snakemake writes beside results and cannot write; each with the remedy."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache"))
    remedies = {cache: "Snakemake's cache; set XDG_CACHE_HOME or HOME to a folder of yours"}
    if Path("config/config.yaml").is_file():
        own = Path.cwd() / ".snakemake"
        remedies[own] = "which Snakemake needs; fix permissions, or copy the project"
    for folder, remedy in remedies.items():
        if reason := _refusal(folder):
            who = f"user {os.environ.get('USER', os.getuid())}, HOME {os.environ.get('HOME')}"
            yield f"{who}: {folder} cannot be written ({reason}), {remedy}"


def _refusal(folder: Path) -> str:
    """Why a folder, or the nearest above it, takes no file; empty where it does."""
    try:
        while not folder.exists():
            folder = folder.parent
        with contextlib.closing(tempfile.TemporaryFile(dir=folder)):
            return ""
    except OSError as error:
        return error.strerror or str(error)
