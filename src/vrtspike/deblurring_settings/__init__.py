"""The keys of a deblurring preset, a module for each section, and their names in older files.

:mod:`vrtspike.config` reads presets.
"""

from vrtspike.deblurring_settings.schema import DeblurringSettings, require_deblurring_settings

__all__ = ["DeblurringSettings", "require_deblurring_settings"]
