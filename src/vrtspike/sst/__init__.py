"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

The names listed here are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrtspike.sst.base_trainer import MODEL_SAVE_PATH, BaseTrainer
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
    from vrtspike.sst.grid import Area
    from vrtspike.sst.model import RecursiveAttentionTransformer

__all__ = [
    "MODEL_SAVE_PATH",
    "Area",
    "BaseTrainer",
    "ERA5SSTMonthlyDataset",
    "RecursiveAttentionTransformer",
]


_HOMES = {
    "MODEL_SAVE_PATH": "vrtspike.sst.base_trainer",
    "Area": "vrtspike.sst.grid",
    "BaseTrainer": "vrtspike.sst.base_trainer",
    "ERA5SSTMonthlyDataset": "vrtspike.sst.dataset",
    "RecursiveAttentionTransformer": "vrtspike.sst.model",
}
"""Modules of the names."""


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike.sst' has no attribute {name!r}")
    attribute: object = getattr(import_module(_HOMES[name]), name)
    return attribute
