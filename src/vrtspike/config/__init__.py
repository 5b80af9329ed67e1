"""Configuration: one schema, presets with parents, overrides, and errors that name the line."""

from vrtspike.config.loading import load_preset
from vrtspike.config.schema import Settings

__all__ = ["Settings", "load_preset"]
