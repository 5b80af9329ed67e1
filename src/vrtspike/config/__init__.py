"""Configuration of every task: presets with parents, overrides, errors that name the line.

:mod:`vrtspike.deblurring_settings` has the keys of a deblurring preset.
"""

from vrtspike.config.loading import load_preset

__all__ = ["load_preset"]
