"""Where a run ran: code, packages, machine and device, for its record."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

from vrtspike.cpus import available_cpus

_PACKAGES = ("torch", "torchvision", "numpy", "zarr", "bitsandbytes", "lpips", "snakemake")


def describe_environment(device: torch.device) -> dict[str, object]:
    """What a reader needs to judge or repeat a figure, as a JSON value.

    Args:
        device: where the run computes.
    """
    return {
        "git": git_state(Path(__file__).parent),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in ("vrtspike", *_PACKAGES)},
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "cpus": available_cpus(),
        "threads": torch.get_num_threads(),
        "device": describe_device(device),
        "batch_job": os.environ.get("SLURM_JOB_ID"),
    }


def describe_device(device: torch.device) -> dict[str, object]:
    """Name, and for a GPU its memory, capability and software."""
    if device.type != "cuda":
        return {"type": device.type, "name": platform.processor() or platform.machine()}
    properties = torch.cuda.get_device_properties(device)
    return {
        "type": "cuda",
        "name": properties.name,
        "memory_mb": properties.total_memory // 2**20,
        "capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def git_state(folder: Path) -> dict[str, object] | None:
    """Commit of the checkout that holds ``folder`` and whether tracked files differ from it.

    None outside a checkout, or where git is not installed.
    """
    try:
        commit = _git(folder, "rev-parse", "HEAD").strip()
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no").strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "changed": bool(changed)}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
