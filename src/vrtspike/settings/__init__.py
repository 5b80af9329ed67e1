"""The keys of a deblurring preset, a module for each section, and their names in older files.

:mod:`vrtspike.config` reads presets.
"""

from vrtspike.settings.schema import Settings, deblurring_settings

__all__ = ["Settings", "deblurring_settings"]
