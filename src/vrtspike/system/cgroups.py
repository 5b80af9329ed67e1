"""The control groups of this process: of a container, a batch job or a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
"""The control groups of this process."""


def cgroup_folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Folders of the nested control groups of this process, from the inner to the outermost one.

    Each may have a limit, and the smallest counts: that of a Slurm job is two groups above its
    step. Both versions of control groups are included; some of the folders may not exist.

    Args:
        controller: of version 1, such as ``memory``; version 2 has one tree for all.
        root: mount point.
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
            # In a container, the path may be that on the host.
            own = tree / path.lstrip("/")
            yield from (group for group in (own, *own.parents) if group.is_relative_to(tree))
