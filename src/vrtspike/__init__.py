"""VRT-Spike: video deblurring with spike cameras, from raw files to a report."""

__version__ = "0.1.0"
