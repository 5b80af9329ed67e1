"""Sea surface temperature: monthly means of ERA5, a transformer that forecasts them, a trainer.

The names that the stub ``__init__.pyi`` lists are imported when they are used.
"""

from __future__ import annotations

from vrtspike.lazy_names import attach_stub

__all__, __getattr__, __dir__ = attach_stub(__name__, __file__)
