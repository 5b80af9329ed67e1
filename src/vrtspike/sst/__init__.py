"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

The names listed here are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `as` makes a name public for type checkers.
    from vrtspike.sst.base_trainer import MODEL_SAVE_PATH as MODEL_SAVE_PATH
    from vrtspike.sst.base_trainer import BaseTrainer as BaseTrainer
    from vrtspike.sst.base_trainer import read_model as read_model
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset as ERA5SSTMonthlyDataset
    from vrtspike.sst.generate import Globe as Globe
    from vrtspike.sst.generate import write_example as write_example
    from vrtspike.sst.grid import Area as Area
    from vrtspike.sst.model import RecursiveAttentionTransformer as RecursiveAttentionTransformer
    from vrtspike.sst.preparation import prepare as prepare

_HOMES = {
    "MODEL_SAVE_PATH": "vrtspike.sst.base_trainer",
    "Area": "vrtspike.sst.grid",
    "BaseTrainer": "vrtspike.sst.base_trainer",
    "ERA5SSTMonthlyDataset": "vrtspike.sst.dataset",
    "Globe": "vrtspike.sst.generate",
    "RecursiveAttentionTransformer": "vrtspike.sst.model",
    "prepare": "vrtspike.sst.preparation",
    "read_model": "vrtspike.sst.base_trainer",
    "write_example": "vrtspike.sst.generate",
}
"""Modules of the public names, the same as in the imports above, which type checkers read."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike.sst' has no attribute {name!r}")
    attribute: object = getattr(import_module(_HOMES[name]), name)
    return attribute
