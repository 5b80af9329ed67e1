"""The parts of ``benchmarks/gpu.py``, what decides first.

A part is a function of a module here, called in a process of its own. It yields pairs of a name and
a figure (a JSON value); each is written down at once, and a later one of the same name replaces it.
A figure with ``"agrees": False`` makes the part fail, but not stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from preset_values import READERS

Figures = Iterator[tuple[str, Any]]


class NotRun(Exception):
    """A part cannot run here; the message says what it needs."""


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

    @property
    def dtype(self) -> torch.dtype:
        """Type of products: that of the presets; Triton's interpreter has none of bfloat16."""
        return torch.float16 if self.small else torch.bfloat16


@dataclass(frozen=True)
class Part:
    """One thing to check or to measure.

    Attributes:
        name: in the results.
        where: ``module:function``, called with a :class:`Place`.
        seconds: its limit; what it has found by then is kept.
        needs: packages beside PyTorch's own.
        cpu: whether it can be tried without a GPU.
    """

    name: str
    where: str
    seconds: int
    needs: tuple[str, ...] = ()
    cpu: bool = True

    def run(self, place: Place) -> Figures:
        """What the part finds.

        Raises:
            NotRun: a GPU or a package is missing.
        """
        if place.small and not self.cpu:
            raise NotRun("needs a GPU")
        missing = [package for package in self.needs if find_spec(package) is None]
        if missing:
            raise NotRun(f"needs the package {', '.join(missing)}")
        module, _, name = self.where.partition(":")
        function: Callable[[Place], Figures] = getattr(import_module(module), name)
        yield from function(place)


BITSANDBYTES = ("bitsandbytes", *READERS)

FIRST = (
    Part("machine", "gpu_steps:machine", 25),
    Part("compile kernels", "gpu_agreement:compile_kernels", 75, needs=("triton",), cpu=False),
    Part("agreement", "gpu_agreement:agreement", 70, needs=("triton",)),
    Part("cuda graph", "gpu_steps:cuda_graph", 60, cpu=False),
    Part("steps", "gpu_steps:steps", 90),
    Part("steps beside torch.compile", "gpu_steps:steps_beside_compile", 80),
    Part("steps beside flex", "gpu_steps:steps_beside_flex", 80, needs=("triton",), cpu=False),
)
"""What decides whether the kernels are worth having."""

REST = (
    Part("steps of other presets", "gpu_steps:steps_of_other_presets", 240),
    Part("golden", "gpu_agreement:golden", 120, needs=("safetensors",)),
    Part("resume", "gpu_training:resume", 60),
    Part("memory categories", "gpu_training:memory_categories", 60, needs=("psutil", "pynvml")),
    Part("8-bit optimiser", "gpu_training:eight_bit_optimiser", 60, BITSANDBYTES, cpu=False),
    Part("tests", "gpu_training:marked_tests", 300, ("pytest", *READERS), cpu=False),
)

PARTS = (*FIRST, *REST)
