"""Configuration: one schema, presets with parents, overrides, and errors that name the line."""

from vrtspike.config.loading import load_preset, load_settings_file
from vrtspike.config.results import result_settings
from vrtspike.config.schema import Settings

__all__ = ["Settings", "load_preset", "load_settings_file", "result_settings"]
