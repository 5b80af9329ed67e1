"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

The names listed here are imported when they are used.
"""

from __future__ import annotations

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


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in __all__:
        raise AttributeError(f"module 'vrtspike.sst' has no attribute {name!r}")
    from vrtspike.sst import base_trainer, dataset

    return getattr(dataset if hasattr(dataset, name) else base_trainer, name)
