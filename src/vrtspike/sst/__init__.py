"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

What programs use most, imported when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrtspike.sst.area import Area
    from vrtspike.sst.base_trainer import MODEL_SAVE_PATH, BaseTrainer
    from vrtspike.sst.dataset import ERA5SSTMonthlyDataset
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
    "Area": "vrtspike.sst.area",
    "BaseTrainer": "vrtspike.sst.base_trainer",
    "ERA5SSTMonthlyDataset": "vrtspike.sst.dataset",
    "RecursiveAttentionTransformer": "vrtspike.sst.model",
}


def __getattr__(name: str) -> object:
    """Import one of :data:`__all__` when it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vrtspike.sst' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The module's own names and those that are imported when they are used."""
    return sorted({*globals(), *__all__})
