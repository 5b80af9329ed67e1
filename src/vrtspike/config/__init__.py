"""Configuration: one schema, presets with parents, overrides, and errors that name the line."""

from vrtspike.config.loading import load_preset

__all__ = ["load_preset"]
