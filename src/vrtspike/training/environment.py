"""The environment of a run: commit, packages, host and device."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

from vrtspike.system.cpus import available_cpus

_PACKAGES = ("torch", "torchvision", "numpy", "zarr", "bitsandbytes", "lpips", "snakemake")


def describe_environment(device: torch.device) -> dict[str, object]:
    """Describe commit, packages, host and device of a run, as a JSON value.

    Args:
        device: device on which the run computes.
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
    """Describe a device: its name; of a GPU also memory, compute capability and CUDA version."""
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
    """Return the commit of the checkout of ``folder``, and ``changed`` for edited tracked files.

    None outside a checkout, or if git is not installed.
    """
    # Tags are ignored, so that git describes the state by the commit.
    describe = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    command = ["git", "-C", str(folder), *describe]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    commit, changed, _ = completed.stdout.partition("-dirty")
    return {"commit": commit.strip(), "changed": bool(changed)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
