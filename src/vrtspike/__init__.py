"""VRT-Spike: video deblurring with spike cameras, from raw files to a report.

What programs and notebooks use most, imported when it is used; ``docs/api.md`` names the rest.
"""

from __future__ import annotations

import os
from importlib import import_module

# As of `typing`: until ``__main__`` has begun, Ctrl-C ends in a traceback, so little is imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from vrtspike.data.raw.spikes import read_spikes
    from vrtspike.data.store.voxels import voxelize
    from vrtspike.interface.checking import DataCheck, check_data
    from vrtspike.interface.evaluating import Evaluation, evaluate
    from vrtspike.interface.restoring import restore
    from vrtspike.interface.training import TrainingResult, train
    from vrtspike.restoration.pictures import read_frames
    from vrtspike.restoration.trained import TrainedModel, load

__version__ = "0.1.0"

__all__ = [
    "DataCheck",
    "Evaluation",
    "TrainedModel",
    "TrainingResult",
    "check_data",
    "evaluate",
    "load",
    "read_frames",
    "read_spikes",
    "restore",
    "train",
    "voxelize",
]

_HOMES = {
    "DataCheck": "vrtspike.interface.checking",
    "Evaluation": "vrtspike.interface.evaluating",
    "TrainedModel": "vrtspike.restoration.trained",
    "TrainingResult": "vrtspike.interface.training",
    "check_data": "vrtspike.interface.checking",
    "evaluate": "vrtspike.interface.evaluating",
    "load": "vrtspike.restoration.trained",
    "read_frames": "vrtspike.restoration.pictures",
    "read_spikes": "vrtspike.data.raw.spikes",
    "restore": "vrtspike.interface.restoring",
    "train": "vrtspike.interface.training",
    "voxelize": "vrtspike.data.store.voxels",
}

# Threads that wait for others sleep instead of spin, unless the user chose otherwise: on busy cores
# a CPU training step took 4 to 7 times as long. PyTorch's own OpenMP spins for some microseconds
# first, which makes the short operations of a quiet machine up to a third faster. It looks at these
# variables once, when PyTorch is imported; every program imports this module before.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike' has no attribute {name!r}")
    attribute: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    """The module's own names and those that are imported when they are used."""
    return sorted({*globals(), *__all__})
