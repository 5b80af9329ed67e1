"""The keys of a preset of the deblurring: one schema, and their names in older files."""

from vrtspike.settings.schema import Settings, deblurring_settings

__all__ = ["Settings", "deblurring_settings"]
