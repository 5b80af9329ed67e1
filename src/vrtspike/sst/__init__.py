"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

The names listed here are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrtspike.sst.base_trainer import MODEL_SAVE_PATH, BaseTrainer, read_model
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
    from vrtspike.sst.generate import Globe, write_example
    from vrtspike.sst.grid import Area
    from vrtspike.sst.model import RecursiveAttentionTransformer
    from vrtspike.sst.store import prepare

__all__ = [
    "MODEL_SAVE_PATH",
    "Area",
    "BaseTrainer",
    "ERA5SSTMonthlyDataset",
    "Globe",
    "RecursiveAttentionTransformer",
    "prepare",
    "read_model",
    "write_example",
]


_HOMES = {
    "MODEL_SAVE_PATH": "vrtspike.sst.base_trainer",
    "Area": "vrtspike.sst.grid",
    "BaseTrainer": "vrtspike.sst.base_trainer",
    "ERA5SSTMonthlyDataset": "vrtspike.sst.dataset",
    "Globe": "vrtspike.sst.generate",
    "RecursiveAttentionTransformer": "vrtspike.sst.model",
    "prepare": "vrtspike.sst.store",
    "read_model": "vrtspike.sst.base_trainer",
    "write_example": "vrtspike.sst.generate",
}
"""Modules of the names."""


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike.sst' has no attribute {name!r}")
    attribute: object = getattr(import_module(_HOMES[name]), name)
    return attribute
