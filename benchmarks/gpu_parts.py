"""The parts of ``benchmarks/gpu.py``, the most valuable first.

A part is a function of a module here, called in a process of its own. It yields pairs of a name and
a figure (a JSON value), each of which is written down at once; a figure with ``"agrees": False``
makes the part fail, but not stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

Figures = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class Place:
    """Where a part runs.

    Attributes:
        device: a GPU, or the CPU to try the parts themselves.
        golden: folder of the golden files; it may be missing.
    """

    device: torch.device
    golden: str

    @property
    def small(self) -> bool:
        """Whether problems are tiny: there is no GPU to measure."""
        return self.device.type != "cuda"


@dataclass(frozen=True)
class Part:
    """One thing to check or to measure.

    Attributes:
        name: in the results.
        where: ``module:function``, called with a :class:`Place`.
        seconds: it may take; what it has found by then is kept.
        needs: packages beside PyTorch's own.
        cpu: whether it makes sense without a GPU.
    """

    name: str
    where: str
    seconds: int
    needs: tuple[str, ...] = ()
    cpu: bool = True

    def obstacle(self, place: Place) -> str | None:
        """Why the part cannot run, if it cannot."""
        if place.small and not self.cpu:
            return "needs a GPU"
        missing = [package for package in self.needs if find_spec(package) is None]
        return f"needs the package {', '.join(missing)}" if missing else None

    def function(self) -> Callable[[Place], Figures]:
        """The function, imported."""
        module, _, name = self.where.partition(":")
        found: Callable[[Place], Figures] = getattr(import_module(module), name)
        return found


PARTS = (
    Part("machine", "gpu_speed:machine", 40),
    Part("kernels agree", "gpu_checks:kernels_agree", 110, needs=("triton",), cpu=False),
    Part("step", "gpu_speed:steps", 150),
    Part("profile", "gpu_speed:profile", 40),
    Part("calls", "gpu_speed:calls", 60),
    Part("golden", "gpu_checks:golden", 60),
    Part("graph", "gpu_speed:graph", 40, cpu=False),
    Part("recorded steps", "gpu_checks:recorded", 40, cpu=False),
    Part("resume", "gpu_checks:resume", 30),
    Part("events", "gpu_checks:events", 20),
    Part("memory categories", "gpu_checks:memory_categories", 30, needs=("psutil", "pynvml")),
    Part(
        "8-bit optimiser",
        "gpu_checks:eight_bit_optimiser",
        30,
        needs=("bitsandbytes", "pydantic", "ruamel"),
        cpu=False,
    ),
    Part("compiled", "gpu_speed:compiled", 120, cpu=False),
    Part(
        "tests", "gpu_checks:marked_tests", 120, needs=("pytest", "pydantic", "ruamel"), cpu=False
    ),
)
