"""The control groups that bound this process: a container's, a batch job's, a service's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""What the kernel says of this process."""


def cgroup_folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Folders of the groups that this process is in, from its own to the outermost it can see.

    Each has a limit of its own, and the least counts: that of a Slurm job stands two groups above
    its step. Of both versions; folders that the mounted tree has not are among them.

    Args:
        controller: of version 1, such as ``memory``; version 2 has one tree for all.
        root: where the trees are mounted.
    """
    try:
        rows = MEMBERSHIP.read_text().splitlines()
    except OSError:
        rows = []
    for row in [*rows, "0::/", f"0:{controller}:/"]:
        _, controllers, path = row.split(":", 2)
        trees = [root, root / "unified"] if not controllers else []
        trees += [root / controller] if controller in controllers.split(",") else []
        for tree in trees:
            # A container may see its own group as the outermost, and its path as the host has it.
            own = tree / path.lstrip("/")
            yield from (group for group in (own, *own.parents) if group.is_relative_to(tree))
